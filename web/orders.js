// The user's own orders, newest first, page by page.

import { api } from "./api.js";
import { money, setText } from "./format.js";
import { learn, onOrders } from "./my_orders.js";
import { OrderActions } from "./order_actions.js";
import { byId, element, language, texts } from "./page.js";
import { apiAsUser, onSession, session } from "./session.js";
import { stateOf } from "./states.js";
import { lastOf } from "./words.js";

const list = byId("order-list");
const more = byId("more-orders");
const empty = byId("no-orders");
const titles = new Map();
const dates = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" });
const rows = new Map(); // by order
// Of several loads under way the last one counts.
let loads = 0;
let oldest = null;

// What vouchers are called, where the page knows it already.
export const knowTitle = (voucher) => titles.set(voucher.id, voucher.title);

async function title(id) {
  if (!titles.has(id)) {
    const answer = await api("GET", `/api/vouchers/${id}`);
    if (answer.ok) knowTitle(answer.body);
  }
  return titles.get(id) ?? "";
}

class Row {
  constructor(order, name) {
    this.status = element("span", { class: "order-status" });
    this.message = element("p", { class: "message", role: "status", tabIndex: -1 });
    this.actions = new OrderActions(this.message);
    // An unpaid order has buttons and messages, whose room stays when they go: the orders below do not move.
    const roomy = order.status === "unpaid" ? " roomy" : "";
    this.node = element(
      "li",
      { class: `order${roomy}` },
      element("strong", {}, name || `№ ${order.voucher_id}`),
      this.status,
      element("span", { class: "order-amount" }, order.amount ? money(order.amount) : texts.free),
      element("span", { class: "order-id" }, order.order_id),
      element("time", { dateTime: order.created_at }, dates.format(new Date(order.created_at))),
      this.actions.node,
      this.message,
    );
    this.show(order);
  }

  show(order) {
    const state = stateOf(order);
    this.node.dataset.order = state;
    setText(this.status, texts[`order_${state}`] ?? state);
    this.actions.show(order);
  }
}

async function load(before) {
  const load = ++loads;
  const path = `/api/orders?limit=10${before ? `&before=${before}` : ""}`;
  const answer = await apiAsUser("GET", path);
  if (load !== loads) return;
  if (!answer.ok) {
    if (session()) byId("orders-notice").textContent = answer.body?.title ?? texts.no_connection;
    return;
  }
  const names = await Promise.all(answer.body.map((order) => title(order.voucher_id)));
  if (load !== loads) return;
  byId("orders-notice").textContent = "";
  if (!before) clear();
  answer.body.forEach((order, at) => {
    const row = new Row(order, names[at]);
    rows.set(order.order_id, row);
    list.append(row.node);
    learn(order);
  });
  oldest = lastOf(answer.body)?.order_id ?? null;
  more.hidden = !answer.headers.get("link");
  empty.hidden = list.childElementCount > 0;
}

function clear() {
  rows.clear();
  list.replaceChildren();
}

// Shows the newest orders.
export function showOrders() {
  byId("orders-notice").textContent = "";
  if (session()) load(null);
}

export function renderOrders() {
  for (const row of rows.values()) row.actions.render();
}

more.addEventListener("click", () => oldest && load(oldest));

onOrders({
  learnt(order) {
    const row = rows.get(order.order_id);
    if (row) return row.show(order);
    // Bought in another window.
    const [newest] = rows.keys();
    const isNew = newest ? BigInt(order.order_id) > BigInt(newest) : !empty.hidden;
    if (isNew && !byId("orders-view").hidden) load(null);
  },
});

onSession((user) => {
  byId("orders-login").hidden = Boolean(user);
  if (user) return;
  loads += 1;
  clear();
  more.hidden = empty.hidden = true;
});
