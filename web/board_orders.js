// The orders of the sale that is watched: by state, page by page, as CSV; and what is done with one.

import { addressOf, within } from "./api.js";
import * as board from "./board.js";
import * as login from "./board_login.js";
import { money } from "./format.js";
import { byId, element, language, texts } from "./page.js";
import { isAsking, isSure } from "./question.js";
import { stateOf } from "./states.js";
import { fill, lastOf } from "./words.js";

const CSV_WITHIN_MS = 120_000;
// What can be done with an order in this state: [name, path].
const ACTIONS = {
  unpaid: [["cancel", "cancellation"]],
  paid: [
    ["redeem", "redemption"],
    ["refund", "refund"],
  ],
  refunding: [["settle", "settlement"]],
};
const time = new Intl.DateTimeFormat(language, { dateStyle: "short", timeStyle: "medium" });
const rows = byId("order-rows");
const say = (text) => (byId("orders-state").textContent = text);

// The last order of the page before, for each page that was turned.
let turned = [];
let last = null;
// Of several questions under way the answer to the last counts.
let asked = 0;
// The order whose state was said last: where it goes on, that is said, too.
let told = null;

function path() {
  const query = new URLSearchParams();
  if (byId("order-status").value) query.set("status", byId("order-status").value);
  return { query, of: `/api/vouchers/${board.chosenSale()}/orders` };
}

async function load() {
  if (!board.chosenSale()) return;
  const question = ++asked;
  const { query, of } = path();
  if (turned.length > 0) query.set("before", lastOf(turned));
  const answer = await board.ask("GET", `${of}?${query}`);
  if (question !== asked) return;
  if (!answer.ok) return say(login.refusal(answer));
  show(answer.body);
  byId("newer-orders").disabled = turned.length === 0;
  byId("older-orders").disabled = !answer.headers.get("link");
}

// A row that has not changed stays the same element: with another in its place, a press that has begun on its button,
// and the focus, would be lost.
function show(orders) {
  last = lastOf(orders)?.order_id ?? null;
  const before = new Map([...rows.children].map((row) => [row.dataset.shows, row]));
  const none = byId("order-status").value ? texts.none_in_state : texts.no_orders;
  const empty = element("tr", {}, element("td", { colSpan: 6 }, none));
  const going = orders.find((order) => order.order_id === told?.order_id && order.voucher_id === told.voucher_id);
  if (going && going.status !== told.status) tell(going);
  const now = orders.map((order) => before.get(JSON.stringify(order)) ?? row(order));
  if (now.length === 0) now.push(empty);
  for (const row of [...rows.children]) if (!now.includes(row)) row.remove();
  now.forEach((row, place) => {
    if (rows.children[place] !== row) rows.insertBefore(row, rows.children[place] ?? null);
  });
}

function row(order) {
  const cell = (label, ...children) => element("td", { "data-label": label }, ...children);
  const buttons = (ACTIONS[order.status] ?? []).map(([action, path]) => {
    const button = element("button", { class: "quiet", type: "button" }, texts[action]);
    button.setAttribute("aria-label", fill(texts.action_on, { action: texts[action], order: order.order_id }));
    button.addEventListener("click", () => act(button, order, action, path));
    return button;
  });
  const state = stateOf(order);
  return element(
    "tr",
    { "data-order": order.order_id, "data-state": state, "data-shows": JSON.stringify(order) },
    cell(texts.order, order.order_id),
    cell(texts.buyer, order.phone ?? order.user_id),
    cell(texts.order_state, texts[`order_${state}`] ?? state),
    cell(texts.amount, amountOf(order)),
    cell(texts.placed, time.format(new Date(order.created_at))),
    element("td", { class: "actions" }, ...buttons),
  );
}

// What it cost, and what of that went back though its state does not say so.
function amountOf({ amount, returned_amount: returned, status }) {
  if (returned === 0 || (status === "refunded" && returned === amount)) return money(amount);
  return fill(texts.amount_returned, { amount: money(amount), returned: money(returned) });
}

function tell(order) {
  told = order;
  say(fill(texts.order_is_now, { order: order.order_id, state: texts[`order_${stateOf(order)}`] }));
}

function questionOf(order, action) {
  const { order_id: id, phone, user_id: user, amount } = order;
  const values = { order: id, buyer: phone ?? user, amount: money(amount) };
  const about = fill(texts[`${action}_question`], values);
  return { title: texts[action], about, yes: texts[action], no: texts.no };
}

async function act(button, order, action, step) {
  // A second press before the question is seen.
  if (isAsking() || !(await isSure(questionOf(order, action)))) return;
  const buttons = button.parentElement.children;
  for (const one of buttons) one.disabled = true;
  // Orders of two vouchers may have one id.
  const done = await board.ask("POST", `/api/orders/${order.order_id}/${step}?voucher_id=${order.voucher_id}`);
  const state = texts[`order_${done.body?.status}`] ?? texts[`order_${done.body?.order_status}`];
  told = null;
  if (done.ok) tell({ ...order, status: done.body.status });
  else if (done.body?.code === "order_state") say(fill(texts.order_refused, { order: order.order_id, state }));
  else say(done.status === 0 ? texts.order_unknown : login.refusal(done));
  await load();
  for (const one of buttons) one.disabled = false;
  byId("orders-state").focus();
}

function turnTo(pages) {
  turned = pages;
  told = null;
  say("");
  load();
}

byId("order-status").addEventListener("change", () => turnTo([]));
byId("newer-orders").addEventListener("click", () => turnTo(turned.slice(0, -1)));
byId("older-orders").addEventListener("click", () => last && turnTo([...turned, last]));

// The address alone would not do: the download needs the session.
byId("orders-csv").addEventListener("click", async () => {
  const button = byId("orders-csv");
  button.disabled = true;
  say("");
  const { query, of } = path();
  query.set("for", "spreadsheet");
  const sale = board.chosenSale();
  try {
    const answer = await fetch(addressOf(`${of}?${query}`), {
      headers: { accept: "text/csv", authorization: `Bearer ${login.token()}`, "accept-language": language },
      signal: within(CSV_WITHIN_MS),
    });
    if (answer.ok) save(await answer.blob(), `orders-of-${sale}.csv`);
    else say(login.refusal({ status: answer.status, body: await answer.json() }));
  } catch {
    say(texts.csv_lost);
  }
  button.disabled = false;
});

function save(blob, name) {
  const address = URL.createObjectURL(blob);
  element("a", { href: address, download: name }).click();
  // The browser has begun to read it by then.
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

// Another sale was chosen. Until its orders are known there is none to press a button of.
board.onSale((voucher) => {
  if (voucher !== null) return;
  rows.replaceChildren();
  last = null;
  byId("newer-orders").disabled = byId("older-orders").disabled = true;
  turnTo([]);
});

// The newest orders come by themselves, unless somebody is about to press something.
board.everySecond(async (isFifth) => {
  const isBusy = turned.length > 0 || isAsking() || rows.contains(document.activeElement);
  const isDue = isFifth || told?.status === "refunding";
  if (isDue && !isBusy) await load();
});
