// The orders of whoever is logged in, as far as this page knows them. An order that waits for something (to
// be paid, to expire, to be refunded) is asked about every few seconds, and all of them when somebody comes
// back to the page: what happens elsewhere shows here without a reload.

import { about } from "./live.js";
import { apiAsUser, onSession, session } from "./session.js";
import { decisiveOrder, stateOf } from "./states.js";

const ASK_EVERY_MS = 4_000;
const orders = new Map(); // by id
const listeners = [];
// Reasons to read all orders so far (somebody came, came back, or lost an answer), and how many of them the
// last reading has answered: one that comes while the orders are read needs another reading.
let doubts = 0;
let settled = -1;
let timer = 0;
let user = null;

// `""`: an order whose state nobody could say yet.
const isWaiting = ({ status }) => ["", "unpaid", "refunding"].includes(status);

// Calls `learnt(order)` for each order that is new or changed, `read()` when all of them are known, and
// `forgot()` when somebody else is logged in, or nobody. And `asks(isAll)` each time before it asks: for all of them,
// or for those that wait.
export function onOrders(listener) {
  listeners.push(listener);
}

// The order of a voucher that counts.
export const orderOf = (voucherId) =>
  decisiveOrder([...orders.values()].filter((order) => order.voucher_id === voucherId));

export function learn(order) {
  const known = orders.get(order.order_id);
  orders.set(order.order_id, order);
  if (known && stateOf(known) === stateOf(order)) return;
  for (const { learnt } of listeners) learnt?.(order);
}

// Asks for `path`, and hands its answer on unless somebody else has logged in meanwhile. Of an order that
// has changed meanwhile the answer may be the older word: it is dropped.
async function question(path, ordersIn) {
  const before = new Map(orders);
  const buyer = session()?.token;
  const answer = await apiAsUser("GET", path);
  if (!answer.ok || session()?.token !== buyer) return false;
  for (const order of ordersIn(answer.body)) {
    if (orders.get(order.order_id) === before.get(order.order_id)) learn(order);
  }
  return true;
}

// The order as the server says it is; null when it says nothing.
export async function ask(id) {
  const isAnswered = await question(`/api/orders/${id}`, (order) => [order]);
  return isAnswered ? orders.get(id) : null;
}

async function readAll() {
  const before = doubts;
  if (!(await question("/api/orders?limit=100", (list) => list))) return;
  settled = before;
  if (settled !== doubts) return;
  for (const { read } of listeners) read?.();
}

// Asks now, and then every few seconds.
async function askOn() {
  clearTimeout(timer);
  if (session() && !document.hidden) {
    for (const { asks } of listeners) await asks?.(settled !== doubts);
    const waiting = [...orders.values()].filter(isWaiting);
    await (settled === doubts ? Promise.all(waiting.map((order) => ask(order.order_id))) : readAll());
  }
  clearTimeout(timer);
  timer = setTimeout(askOn, about(ASK_EVERY_MS));
}

// An answer was lost: there may be an order that this page does not know.
export function doubt() {
  doubts += 1;
}

function comeBack() {
  if (document.hidden) return;
  doubt();
  askOn();
}

addEventListener("focus", comeBack);
document.addEventListener("visibilitychange", comeBack);
addEventListener("pageshow", (event) => event.persisted && comeBack());

onSession((now) => {
  if ((now?.phone ?? null) === user) return;
  user = now?.phone ?? null;
  orders.clear();
  for (const { forgot } of listeners) forgot?.();
  doubt();
  askOn();
});
