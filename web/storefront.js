// The shop: a card a voucher, and the user's orders. Cards have their order from when the page was loaded, or
// from when somebody asked for what is new: nothing moves under a finger.

import { Card } from "./card.js";
import { setText } from "./format.js";
import { about, PAGE, readVouchers, watch } from "./live.js";
import { onOrders } from "./my_orders.js";
import { knowTitle, renderOrders, showOrders } from "./orders.js";
import { byId, texts } from "./page.js";
import { logIn, logOut, onSession } from "./session.js";
import { byNewest, byPlace, OVER, olderPart, placeOf } from "./states.js";
import { fill } from "./words.js";

const READ_AGAIN_AFTER_MS = 2_000;
// The sales that neither events nor polls cover are asked for again, so many at once.
const OLDER_EVERY_MS = 4_000;
const OLDER_AT_ONCE = 100;
const cards = new Map(); // by voucher
const waiting = new Map(); // vouchers that are new since the cards were arranged, by id
const [list, overList, olderList] = ["vouchers", "over-vouchers", "older-vouchers"].map(byId);
const more = byId("more-vouchers");
const news = byId("new-sales");
const nothingOn = byId("nothing-on");
let isArranged = false;
// Whether every sale was asked for, the oldest too.
let isComplete = false;
let olderTurn = 0;

const isOver = (card) => placeOf(card.status()) === OVER;
const newestFirst = (a, b) => byNewest(a.voucher.id, b.voucher.id);
const inList = (card) => ({ id: card.voucher.id, status: card.status(), begin: card.begin });
const inOrder = (a, b) => byPlace(inList(a), inList(b));

// Appends these cards to `open` and to those that are over, in their order.
function append(some, open) {
  for (const card of some.sort(inOrder)) (isOver(card) ? overList : open).append(card.node);
  const over = overList.childElementCount;
  byId("nothing-yet").hidden = cards.size > 0;
  byId("over").hidden = over === 0;
  setText(byId("over-count"), fill(texts.over, { count: over }));
  makeRoom();
}

// A sale that nobody asked to see yet, a new or an older one, may be on.
function isNothingOn() {
  if (!isComplete || waiting.size > 0 || cards.size === 0) return false;
  return [...cards.values()].every(isOver);
}

// The line has its room from when the cards were arranged: what stands below it does not move at an event.
function makeRoom() {
  nothingOn.hidden = !isNothingOn();
}

// Cards among those that are over whose sale goes on: stock came back, or was added.
const comeBack = () => [...cards.values()].filter((card) => card.node.parentElement === overList && !isOver(card));

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
  append([...cards.values()], list);
  announce();
  return shown;
}

function announce() {
  const back = comeBack().length;
  const count = waiting.size + back;
  const one = back > 0 ? texts.sale_back : texts.new_sale;
  const text = count === 1 ? one : fill(back > 0 ? texts.sales_back : texts.new_sales, { count });
  nothingOn.classList.toggle("gone", !isNothingOn());
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
    isComplete = !answer.headers.get("link");
    more.hidden = isComplete;
    hear(answer.body);
  }
  if (!isArranged && (answer.ok || waiting.size > 0)) arrange();
  if (answer.ok) makeRoom();
  else setTimeout(load, about(READ_AGAIN_AFTER_MS));
}

// Asks again for the sales that neither events nor polls cover: those beyond the first page, and those that newer
// sales have pushed from it. One question a turn; where they are too many for it, they take turns.
async function readOlder() {
  const part = olderPart([...cards.keys(), ...waiting.keys()], PAGE, OLDER_AT_ONCE, olderTurn);
  if (part && !document.hidden) {
    olderTurn += 1;
    const answer = await readVouchers(...part);
    if (answer.ok) hear(answer.body);
  }
  setTimeout(readOlder, about(OLDER_EVERY_MS));
}

news.addEventListener("click", () => {
  const [first] = arrange().sort(inOrder);
  // It may be over by now.
  if (first?.node.parentElement === overList) byId("over").open = true;
  first?.focus();
});

onOrders({
  learnt: (order) => cards.get(order.voucher_id)?.learn(),
  // One after the other: a buyer has few requests at once.
  async asks(isAll) {
    const entries = [...cards.values()].map((card) => card.entry);
    if (isAll) for (const entry of entries) entry.isKnown = false;
    for (const entry of entries) if (!(await entry.ask())) return;
  },
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
  isComplete = !answer.headers.get("link");
  const made = makeCards(answer.body);
  // Below the button, so that nothing comes under the finger that pressed it.
  append(made, olderList);
  // Otherwise nothing would be seen of what was asked for.
  if (made.length > 0 && made.every(isOver)) byId("over").open = true;
  // It keeps its place, and so do the cards below it.
  more.classList.toggle("gone", isComplete);
  announce();
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
setTimeout(readOlder, about(OLDER_EVERY_MS));
setInterval(() => {
  for (const card of cards.values()) card.render();
  renderOrders();
}, 250);
