// The shop: a card a voucher, and the user's orders. Cards have their order from when the page was loaded, or
// from when somebody asked for what is new: nothing moves under a finger.

import { Card } from "./card.js";
import { setText } from "./format.js";
import { readVouchers, watch } from "./live.js";
import { onOrders } from "./my_orders.js";
import { knowTitle, renderOrders, showOrders } from "./orders.js";
import { byId, fill, texts } from "./page.js";
import { logIn, logOut, onSession } from "./session.js";

const READ_AGAIN_AFTER_MS = 2_000;
// Where a sale stands in the list; what is in neither place is over.
const PLACES = { on_sale: 0, paused: 1, upcoming: 2 };
const cards = new Map(); // by voucher
const waiting = new Map(); // vouchers that are new since the cards were arranged, by id
const [list, overList, olderList] = ["vouchers", "over-vouchers", "older-vouchers"].map(byId);
const more = byId("more-vouchers");
const news = byId("new-sales");
let isArranged = false;

const place = (card) => PLACES[card.status()] ?? 3;
const newestFirst = (a, b) => (BigInt(a.voucher.id) < BigInt(b.voucher.id) ? 1 : -1);

// On sale first, then what comes soonest, then what is over.
function inOrder(a, b) {
  const difference = place(a) - place(b);
  if (difference !== 0) return difference;
  const isUpcoming = place(a) === PLACES.upcoming && a.begin !== b.begin;
  return isUpcoming ? a.begin - b.begin : newestFirst(a, b);
}

// Appends these cards to the lists, in their order.
function append(some) {
  for (const card of some.sort(inOrder)) (place(card) === 3 ? overList : list).append(card.node);
  const over = overList.childElementCount;
  byId("nothing-yet").hidden = cards.size > 0;
  byId("over").hidden = over === 0;
  setText(byId("over-count"), fill(texts.over, { count: over }));
}

// Cards among those that are over whose sale goes on: stock came back, or was added.
const comeBack = () => [...cards.values()].filter((card) => card.node.parentElement === overList && place(card) !== 3);

function makeCards(vouchers) {
  const made = vouchers.filter(({ id }) => !cards.has(id)).map((voucher) => new Card(voucher));
  for (const card of made) {
    cards.set(card.voucher.id, card);
    knowTitle(card.voucher);
  }
  return made;
}

// Shows what waited, and brings all cards into the order of now. Returns the cards that waited.
function arrange() {
  isArranged = true;
  const shown = [...comeBack(), ...makeCards([...waiting.values()])];
  waiting.clear();
  append([...cards.values()]);
  announce();
  return shown;
}

function announce() {
  const back = comeBack().length;
  const count = waiting.size + back;
  const one = back > 0 ? texts.sale_back : texts.new_sale;
  const text = count === 1 ? one : fill(back > 0 ? texts.sales_back : texts.new_sales, { count });
  byId("nothing-on").hidden = cards.size === 0 || [...cards.values()].some((card) => place(card) !== 3);
  if (count > 0) setText(news, text);
  news.classList.toggle("waits", count > 0);
}

function hear(vouchers) {
  for (const voucher of vouchers) {
    const card = cards.get(voucher.id);
    if (card) card.update(voucher);
    else waiting.set(voucher.id, voucher);
    knowTitle(voucher);
  }
  if (!isArranged) return;
  // Where there is no card, none can move.
  if (cards.size === 0 && waiting.size > 0) arrange();
  else announce();
}

// The first page of the list. A server that cannot say it now may still send events.
async function load() {
  const answer = await readVouchers();
  if (answer.ok) {
    hear(answer.body);
    more.hidden = !answer.headers.get("link");
  }
  if (!isArranged && (answer.ok || waiting.size > 0)) arrange();
  if (!answer.ok) setTimeout(load, READ_AGAIN_AFTER_MS * (0.8 + 0.4 * Math.random()));
}

news.addEventListener("click", () => {
  const [first] = arrange().sort(inOrder);
  // It may be over by now.
  if (first?.node.parentElement === overList) byId("over").open = true;
  first?.focus();
});

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
  if (more.getAttribute("aria-busy") === "true") return;
  more.setAttribute("aria-busy", "true");
  const [oldest] = [...cards.values()].sort(newestFirst).slice(-1);
  const answer = await readVouchers(oldest?.voucher.id);
  more.removeAttribute("aria-busy");
  if (!answer.ok) return;
  // Below the button, so that nothing comes under the finger that pressed it.
  olderList.append(...makeCards(answer.body).map((card) => card.node));
  // It keeps its place, and so do the cards below it.
  more.classList.toggle("gone", !answer.headers.get("link"));
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
  heard: hear,
  state(state) {
    const line = byId("connection");
    line.dataset.state = state;
    setText(line, texts[state]);
  },
});
load();
setInterval(() => {
  for (const card of cards.values()) card.render();
  renderOrders();
}, 250);
