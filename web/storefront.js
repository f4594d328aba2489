// The shop: a card a voucher, and the user's orders.

import { Card } from "./card.js";
import { setText } from "./format.js";
import { watch } from "./live.js";
import { onOrders } from "./my_orders.js";
import { knowTitle, renderOrders, showOrders } from "./orders.js";
import { api, byId, texts } from "./page.js";
import { logIn, logOut, onSession } from "./session.js";

const PAGE = 20;
const cards = new Map(); // by voucher
const list = byId("vouchers");
const more = byId("more-vouchers");

function show(vouchers) {
  for (const voucher of vouchers) {
    knowTitle(voucher);
    const known = cards.get(voucher.id);
    if (known) {
      known.update(voucher);
      continue;
    }
    const card = new Card(voucher);
    cards.set(voucher.id, card);
    // Newest first: ids grow.
    const later = [...list.children].find((node) => BigInt(node.dataset.id) < BigInt(voucher.id));
    card.node.dataset.id = voucher.id;
    list.insertBefore(card.node, later ?? null);
  }
  byId("nothing-yet").hidden = cards.size > 0;
  if (cards.size === PAGE) more.hidden = false;
}

onOrders({
  learnt: (order) => cards.get(order.voucher_id)?.learn(),
  read() {
    for (const card of cards.values()) card.stopDoubting();
  },
  forgot() {
    for (const card of cards.values()) card.forget();
  },
});

let shownUser = null;
onSession((user) => {
  byId("log-in").hidden = Boolean(user);
  byId("user").hidden = !user;
  setText(byId("account-notice"), "");
  setText(byId("user-phone"), user ? user.phone.replace(/^(.*\d{0,3})\d{4}(\d{4})$/, "$1****$2") : "");
  if (user?.phone === shownUser) return;
  shownUser = user?.phone ?? null;
  route();
});

byId("log-in").addEventListener("click", () => logIn());
byId("orders-log-in").addEventListener("click", () => logIn());
byId("log-out").addEventListener("click", async () => {
  const ended = logOut();
  byId("log-in").focus();
  setText(byId("account-notice"), await ended);
});

more.addEventListener("click", async () => {
  const before = list.lastElementChild?.dataset.id;
  const answer = await api("GET", `/api/vouchers?before=${before}`);
  if (!answer.ok) return;
  show(answer.body);
  more.hidden = !answer.headers.get("link");
});

// Two views at one address: `#orders`, and the vouchers.
function route() {
  const isOrders = location.hash === "#orders";
  byId("vouchers-view").hidden = isOrders;
  byId("orders-view").hidden = !isOrders;
  for (const link of document.querySelectorAll(".tabs a")) {
    const isHere = link.hash === (isOrders ? "#orders" : "#all");
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  if (isOrders) showOrders();
}
addEventListener("hashchange", route);
route();

watch({
  heard: show,
  state(state) {
    const line = byId("connection");
    line.dataset.state = state;
    setText(line, texts[state]);
  },
});
setInterval(() => {
  for (const card of cards.values()) card.render();
  renderOrders();
}, 250);
