// The user's own orders, newest first, page by page.

import { api, byId, element, language, texts } from "./page.js";
import { apiAsUser, onSession, session } from "./session.js";

const list = byId("order-list");
const more = byId("more-orders");
const empty = byId("no-orders");
const titles = new Map();
const dates = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" });
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

function row(order, name) {
  return element(
    "li",
    { class: "order" },
    element("strong", {}, name || `№ ${order.voucher_id}`),
    element("span", { class: "order-id" }, order.order_id),
    element("time", { dateTime: order.created_at }, dates.format(new Date(order.created_at))),
    element("span", { class: "order-status" }, texts[`order_${order.status}`] ?? order.status),
  );
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
  if (!before) list.replaceChildren();
  list.append(...answer.body.map((order, at) => row(order, names[at])));
  oldest = answer.body.at(-1)?.order_id ?? null;
  more.hidden = !answer.headers.get("link");
  empty.hidden = list.childElementCount > 0;
}

// Shows the newest orders.
export function showOrders() {
  byId("orders-notice").textContent = "";
  if (session()) load(null);
}

more.addEventListener("click", () => oldest && load(oldest));

onSession((user) => {
  byId("orders-login").hidden = Boolean(user);
  if (user) return;
  loads += 1;
  list.replaceChildren();
  more.hidden = empty.hidden = true;
});
