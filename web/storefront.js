// The shop: a card a voucher, which counts down, sells, and says what became of it.

import { serverNow, watch } from "./live.js";
import { knowTitle, showOrders } from "./orders.js";
import { api, byId, element, fill, language, retryAfter, texts } from "./page.js";
import { apiAsUser, logIn, logOut, onSession, session } from "./session.js";

const MAX_TRIES = 4;
const PAGE = 20;
const cards = new Map(); // by voucher
const list = byId("vouchers");
const more = byId("more-vouchers");
const dates = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" });
const numbers = new Intl.NumberFormat(language);

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function clock(ms) {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  const two = (number) => String(number).padStart(2, "0");
  const days = Math.floor(seconds / 86_400);
  const rest = `${two(Math.floor(seconds / 3600) % 24)}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  return days ? fill(texts.days, { days, rest }) : rest;
}

class Card {
  constructor(voucher) {
    const id = `voucher-${voucher.id}`;
    this.title = element("h2", { id });
    this.badge = element("span", { class: "badge" });
    this.stock = element("span", { class: "stock" });
    this.meter = element("progress", { "aria-labelledby": id });
    this.countdown = element("p", { class: "countdown" });
    this.label = element("span", { class: "countdown-label" });
    this.digits = element("span", { class: "digits", role: "timer" });
    this.countdown.append(this.label, this.digits);
    this.button = element("button", { class: "buy", type: "button", "aria-describedby": id });
    this.when = element("p", { class: "when" });
    this.message = element("p", { class: "message", role: "status", tabIndex: -1 });
    this.node = element(
      "li",
      { class: "card" },
      element("div", { class: "card-head" }, this.title, this.badge),
      element("div", { class: "stock-line" }, this.meter, this.stock),
      element("div", { class: "action" }, this.countdown, this.button),
      this.when,
      this.message,
    );
    this.button.addEventListener("click", () => this.buy());
    this.isBusy = false;
    this.orderId = null;
    this.isUnknown = false; // whether the answer to a purchase was lost
    this.update(voucher);
  }

  update(voucher) {
    this.voucher = voucher;
    this.begin = Date.parse(voucher.begin_time);
    this.end = Date.parse(voucher.end_time);
    setText(this.title, voucher.title);
    this.meter.max = Math.max(voucher.initial_stock, 1);
    this.meter.value = voucher.stock;
    const [left, all] = [voucher.stock, voucher.initial_stock].map((n) => numbers.format(n));
    setText(this.stock, fill(texts.left, { left, all }));
    this.render();
  }

  // Where the sale stands by the server's clock, now.
  status() {
    const now = serverNow();
    if (now === null) return this.voucher.status;
    if (now < this.begin) return "upcoming";
    if (now >= this.end) return "ended";
    return this.voucher.stock > 0 ? "on_sale" : "sold_out";
  }

  render() {
    const status = this.status();
    const now = serverNow() ?? this.begin;
    this.node.dataset.status = status;
    this.node.dataset.owned = String(Boolean(this.orderId));
    setText(this.badge, texts[status]);
    const counts = status === "upcoming";
    this.countdown.hidden = !counts;
    this.button.hidden = counts;
    setText(this.label, texts.begins_in);
    setText(this.digits, clock(this.begin - now));
    this.button.disabled = this.isBusy || Boolean(this.orderId) || status !== "on_sale";
    setText(
      this.button,
      this.isBusy ? texts.buying : this.orderId ? texts.bought : (texts[`buy_${status}`] ?? texts.buy),
    );
    setText(this.when, this.whenText(status, now));
  }

  whenText(status, now) {
    const at = (instant) => dates.format(new Date(instant));
    if (status === "upcoming") return fill(texts.begins_at, { at: at(this.begin) });
    if (status === "ended") return fill(texts.ended_at, { at: at(this.end) });
    const soon = this.end - now < 86_400_000;
    return soon ? fill(texts.ends_in, { time: clock(this.end - now) }) : fill(texts.ends_at, { at: at(this.end) });
  }

  say(text, kind = "") {
    this.message.dataset.kind = kind;
    setText(this.message, text);
  }

  owned(orderId) {
    this.orderId = orderId;
    this.isUnknown = false;
    this.say(fill(texts.your_order, { order: orderId }), "good");
    this.render();
  }

  forget() {
    this.orderId = null;
    this.isUnknown = false;
    if (!this.isBusy) this.say("");
    this.render();
  }

  async buy() {
    if (this.isBusy || this.orderId) return;
    if (!session()) return logIn(() => this.buy());
    this.isBusy = true;
    this.say("");
    this.render();
    try {
      await this.tries();
    } finally {
      this.isBusy = false;
      this.render();
    }
    // A button that is disabled loses the focus; a buyer who has gone on keeps it.
    const hasFocus = [document.body, this.button].includes(document.activeElement);
    if (hasFocus && this.button.disabled) this.message.focus();
  }

  // A purchase that is sent again is made once: the server names the order that there is.
  async tries() {
    const buyer = session()?.token;
    for (let number = 1; ; number += 1) {
      // Somebody else has logged in meanwhile, in this window or another one.
      if (session()?.token !== buyer) return this.say("");
      const answer = await apiAsUser("POST", `/api/vouchers/${this.voucher.id}/orders`);
      if (answer.status !== 401 && session()?.token !== buyer) return this.say("");
      if (answer.status === 201) return this.owned(answer.body.order_id);
      const { code, title } = answer.body ?? {};
      if (code === "already_bought") {
        this.owned(answer.body.order_id);
        // After a lost answer it is news that the order exists, not a refusal.
        if (number === 1) this.say(`${title} ${this.message.textContent}`, "good");
        return;
      }
      const isLost = answer.status === 0;
      // After a lost answer the purchase may still be under way.
      const isUnderWay = number > 1 && code === "order_in_progress";
      const mayHelp = isLost || isUnderWay || [429, 502, 503, 504].includes(answer.status);
      if (!mayHelp || number === MAX_TRIES) return this.refused(answer, title);
      await this.wait(isLost ? texts.lost : (title ?? texts.no_connection), retryAfter(answer), number + 1);
    }
  }

  refused(answer, title) {
    const code = answer.body?.code;
    if (answer.status === 401) {
      this.say("");
      return logIn(() => this.buy(), title);
    }
    if (code === "sold_out") this.update({ ...this.voucher, stock: 0 });
    if (code === "sale_not_started") this.update({ ...this.voucher, begin_time: answer.body.begin_time });
    const text = title ?? texts.no_connection;
    if (answer.status === 0) {
      // There may be an order all the same: asked when the server is there again.
      this.isUnknown = true;
      setTimeout(catchUp, 5_000);
      return this.say(texts.unknown, "bad");
    }
    const gaveUp = answer.status >= 429;
    this.say(gaveUp ? `${text} ${texts.try_again}` : text, "bad");
  }

  // Not before the server says, and not all at one moment.
  async wait(why, seconds, number) {
    const until = performance.now() + seconds * 1000 + Math.random() * (500 + seconds * 500);
    for (;;) {
      const left = until - performance.now();
      if (left <= 0) break;
      const values = { seconds: Math.ceil(left / 1000), number, all: MAX_TRIES };
      this.say(`${why} ${fill(texts.next_try, values)}`, "wait");
      await sleep(Math.min(left, 250));
    }
    this.say("");
  }
}

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
    const owned = orders.get(voucher.id);
    if (owned) card.owned(owned);
  }
  byId("nothing-yet").hidden = cards.size > 0;
  if (cards.size === PAGE) more.hidden = false;
}

// The orders of whoever is logged in, by voucher: a card shows its own after a reload, too.
const orders = new Map();
let ordersAreKnown = false;

async function loadOrders() {
  const buyer = session()?.token;
  const answer = await apiAsUser("GET", "/api/orders?limit=100");
  if (session()?.token !== buyer) return;
  ordersAreKnown = answer.ok;
  if (!answer.ok) return;
  for (const { voucher_id, order_id } of answer.body) {
    orders.set(voucher_id, order_id);
    const card = cards.get(voucher_id);
    if (card && !card.orderId && !card.isBusy) card.owned(order_id);
  }
  for (const card of cards.values()) {
    if (!card.isUnknown) continue;
    card.isUnknown = false;
    card.say(texts.not_bought);
  }
}

// The server is there: what could not be learnt before is asked now.
function catchUp() {
  const isUnsure = !ordersAreKnown || [...cards.values()].some((card) => card.isUnknown);
  if (session() && isUnsure) loadOrders();
}

let shownUser = null;
onSession((user) => {
  byId("log-in").hidden = Boolean(user);
  byId("user").hidden = !user;
  setText(byId("user-phone"), user ? user.phone.replace(/^(.*\d{0,3})\d{4}(\d{4})$/, "$1****$2") : "");
  if (user?.phone === shownUser) return;
  shownUser = user?.phone ?? null;
  orders.clear();
  ordersAreKnown = false;
  for (const card of cards.values()) card.forget();
  if (user) loadOrders();
  route();
});

byId("log-in").addEventListener("click", () => logIn());
byId("orders-log-in").addEventListener("click", () => logIn());
byId("log-out").addEventListener("click", () => {
  logOut();
  byId("log-in").focus();
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
    if (state !== "offline") catchUp();
  },
});
setInterval(() => {
  for (const card of cards.values()) card.render();
}, 250);
