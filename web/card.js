// A voucher: counts down, sells, and says what became of the user's order.

import { retryAfter, sleep } from "./api.js";
import { Entry } from "./entry.js";
import { clock, money, setText, shortClock } from "./format.js";
import { serverNow } from "./live.js";
import { ask, doubt, learn, orderOf } from "./my_orders.js";
import { OrderActions } from "./order_actions.js";
import { element, language, texts } from "./page.js";
import { apiAsUser, logIn, session } from "./session.js";
import { isLive, saleStatus, stateOf } from "./states.js";
import { fill, sentences } from "./words.js";

const MAX_TRIES = 4;
const dates = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "short" });
const numbers = new Intl.NumberFormat(language);

// The last seconds of a countdown are red.
const SOON_MS = 10_000;

export class Card {
  constructor(voucher) {
    const id = `voucher-${voucher.id}`;
    this.title = element("h2", { id, tabIndex: -1 });
    this.badge = element("span", { class: "badge" });
    this.yours = element("span", { class: "badge yours", hidden: true }, texts.yours);
    this.subtitle = element("p", { class: "subtitle" });
    this.price = element("strong", {});
    this.value = element("span", { class: "value" });
    this.prices = element("p", { class: "price" }, this.price, this.value);
    this.stock = element("span", { class: "stock" });
    this.meter = element("progress", { "aria-labelledby": id });
    this.countdown = element("p", { class: "countdown" });
    this.label = element("span", { class: "countdown-label" });
    this.digits = element("span", { class: "digits", role: "timer" });
    this.countdown.append(this.label, this.digits);
    this.button = element("button", { class: "buy", type: "button", "aria-describedby": id });
    this.when = element("p", { class: "when" });
    this.message = element("p", { class: "message", role: "status", tabIndex: -1 });
    this.actions = new OrderActions(this.message);
    this.entry = new Entry(this);
    this.action = element("div", { class: "action" }, this.countdown, this.button, this.entry.leaveButton);
    this.timeToPay = element("p", { class: "time-to-pay" });
    // Each state of a card has its place before it comes: nothing moves when one follows the other.
    this.slot = element("div", { class: "slot" }, this.timeToPay, this.action, this.actions.node);
    this.termsText = element("p");
    this.terms = element("details", { class: "terms" }, element("summary", {}, texts.terms), this.termsText);
    this.node = element(
      "li",
      { class: "card" },
      element(
        "div",
        { class: "card-top" },
        element("div", { class: "badges" }, this.badge, this.yours),
        this.title,
        this.prices,
        this.subtitle,
        this.entry.text,
      ),
      element("div", { class: "stock-line" }, this.meter, this.stock),
      element("div", { class: "room" }, this.message, this.when),
      this.slot,
      this.terms,
      this.entry.draw,
    );
    this.button.addEventListener("click", () => this.buy());
    this.isBusy = false;
    this.order = null; // the user's, of this voucher
    this.isUnknown = false; // whether the answer to a purchase was lost
    this.update(voucher);
    this.learn();
  }

  update(voucher) {
    this.voucher = voucher;
    this.begin = Date.parse(voucher.begin_time);
    this.end = Date.parse(voucher.end_time);
    this.drawAt = Date.parse(voucher.draw_time);
    setText(this.title, voucher.title);
    this.describe(voucher);
    this.meter.max = Math.max(voucher.initial_stock, 1);
    this.meter.value = voucher.stock;
    const [left, all] = [voucher.stock, voucher.initial_stock].map((n) => numbers.format(n));
    setText(this.stock, fill(texts.left, { left, all }));
    this.render();
  }

  describe({ subtitle, price, value, terms, pay_within_s: payWithin }) {
    setText(this.subtitle, subtitle);
    this.subtitle.hidden = !subtitle;
    setText(this.price, price ? money(price) : texts.free);
    setText(this.value, value ? fill(texts.worth, { value: money(value) }) : "");
    this.prices.hidden = !price && !value;
    setText(this.timeToPay, price ? fill(texts.time_to_pay, { time: shortClock(payWithin * 1000) }) : "");
    setText(this.termsText, terms);
    this.terms.hidden = !terms;
  }

  // Where the sale stands by the server's clock, now.
  status() {
    return saleStatus(this.voucher, serverNow());
  }

  isOwned() {
    return this.order !== null && isLive(this.order);
  }

  render() {
    const status = this.status();
    const now = serverNow() ?? this.begin;
    this.node.dataset.status = status;
    this.node.dataset.owned = String(this.isOwned());
    setText(this.badge, texts[status]);
    this.yours.hidden = !this.isOwned();
    const isUnpaid = this.order?.status === "unpaid";
    this.action.hidden = isUnpaid;
    this.timeToPay.hidden = isUnpaid || this.isOwned();
    this.actions.render();
    this.entry.render(status);
    const isWaiting = this.entry.isWaiting(status);
    this.node.dataset.waiting = String(isWaiting);
    const counts = status === "upcoming";
    this.countdown.hidden = !counts;
    this.button.hidden = counts;
    setText(this.label, texts.begins_in);
    setText(this.digits, clock(this.begin - now));
    this.countdown.dataset.soon = String(counts && this.begin - now <= SOON_MS);
    this.until = status === "draw_open" ? this.drawAt : this.end;
    this.when.dataset.soon = String(!counts && status !== "ended" && this.until - now <= SOON_MS);
    const isOpen = ["on_sale", "draw_open", "line_open"].includes(status);
    this.button.disabled = this.isBusy || this.isOwned() || isWaiting || !isOpen;
    setText(this.button, this.buttonText(status));
    setText(this.when, this.whenText(status, now));
  }

  buttonText(status) {
    if (this.isBusy) return status === "on_sale" ? texts.buying : texts.entering;
    if (this.isOwned()) return texts[`has_${this.order.status}`] ?? texts.bought;
    if (this.entry.isWaiting(status)) return texts[`is_${this.entry.state()}`];
    return texts[`buy_${status}`] ?? texts.buy;
  }

  whenText(status, now) {
    const at = (instant) => dates.format(new Date(instant));
    if (status === "upcoming") return fill(texts.begins_at, { at: at(this.begin) });
    if (status === "ended") return fill(texts.ended_at, { at: at(this.end) });
    const [endsIn, endsAt] =
      status === "draw_open" ? [texts.closes_in, texts.closes_at] : [texts.ends_in, texts.ends_at];
    const left = this.until - now;
    return left < 86_400_000 ? fill(endsIn, { time: clock(left) }) : fill(endsAt, { at: at(this.until) });
  }

  // Where a reader goes on who asked for what is new.
  focus() {
    this.title.focus();
  }

  say(text, kind = "") {
    this.message.dataset.kind = kind;
    setText(this.message, text);
  }

  // Looks what became of the user's order. While a purchase is under way, that has the word.
  learn() {
    const before = this.order;
    this.order = orderOf(this.voucher.id);
    if (this.order) this.isUnknown = false;
    this.actions.show(this.order);
    const isSame = before?.order_id === this.order?.order_id && before?.status === this.order?.status;
    // An order that was over before anybody looked is no news.
    const isNews = !isSame && (this.isOwned() || before !== null);
    if (isNews && !this.isBusy) this.sayOrder();
    this.render();
  }

  sayOrder() {
    const { order_id: order, status } = this.order;
    const text = texts[`your_${stateOf(this.order)}`] ?? texts[`your_${status}`] ?? texts.your_order;
    this.say(fill(text, { order }), this.isOwned() ? "good" : "");
  }

  forget() {
    this.order = null;
    this.isUnknown = false;
    this.entry.forget();
    this.actions.show(null);
    if (!this.isBusy) this.say("");
    this.render();
  }

  // All orders are known: there is none of a purchase whose answer was lost.
  stopDoubting() {
    if (!this.isUnknown || this.isBusy) return;
    this.isUnknown = false;
    this.say(texts.not_bought);
  }

  async buy() {
    if (this.isBusy || this.isOwned() || this.entry.isWaiting(this.status())) return;
    if (!session()) return logIn(() => this.buy());
    this.isBusy = true;
    const scrolled = scrollY;
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
    if (!hasFocus) return;
    const said = this.message.textContent ? this.message : this.entry.text;
    if (this.button.disabled || this.action.hidden) said.focus({ preventScroll: true });
    // It is above the button, and so in view in most cases; then nothing is scrolled. Nor is it under the finger
    // of a buyer who has scrolled on.
    if (scrollY === scrolled) said.scrollIntoView({ block: "nearest" });
  }

  // A purchase that is sent again is made once: the server names the order that there is. So is an entry.
  async tries() {
    const buyer = session()?.token;
    const isEntry = this.status() !== "on_sale";
    for (let number = 1; ; number += 1) {
      // Somebody else has logged in meanwhile, in this window or another one.
      if (session()?.token !== buyer) return this.say("");
      const answer = await apiAsUser("POST", `/api/vouchers/${this.voucher.id}/${isEntry ? "entries" : "orders"}`);
      if (answer.status !== 401 && session()?.token !== buyer) return this.say("");
      if (isEntry && answer.ok) return this.entry.learn(answer.body);
      if (answer.status === 201) {
        learn(answer.body);
        this.sayOrder();
        // For a page that has more to say of it.
        this.node.dispatchEvent(new CustomEvent("bought", { bubbles: true, detail: answer.body }));
        return;
      }
      const { code, title } = answer.body ?? {};
      if (code === "already_bought") {
        // After a lost answer it is news that the order exists, not a refusal.
        return this.alreadyBought(answer.body.order_id, buyer, number === 1 ? title : null);
      }
      const isLost = answer.status === 0;
      // After a lost answer the purchase may still be under way.
      const isUnderWay = number > 1 && code === "order_in_progress";
      const mayHelp = isLost || isUnderWay || [429, 502, 503, 504].includes(answer.status);
      if (!mayHelp || number === MAX_TRIES) return this.refused(answer, title, isEntry);
      await this.wait(isLost && !isEntry ? texts.lost : (title ?? texts.no_connection), retryAfter(answer), number + 1);
    }
  }

  async alreadyBought(id, buyer, refusal) {
    const order = await ask(id);
    if (session()?.token !== buyer) return this.say("");
    if (!order) learn({ order_id: id, voucher_id: this.voucher.id, status: "" });
    this.sayOrder();
    if (refusal) this.say(sentences(refusal, this.message.textContent), this.message.dataset.kind);
  }

  refused(answer, title, isEntry) {
    const code = answer.body?.code;
    if (answer.status === 401) {
      this.say("");
      return logIn(() => this.buy(), title);
    }
    if (code === "sold_out") this.update({ ...this.voucher, stock: 0 });
    const status = { sale_paused: "paused", draw_open: "draw_open", line_open: "line_open" }[code];
    if (status) this.update({ ...this.voucher, status });
    if (code === "sale_not_started") this.update({ ...this.voucher, begin_time: answer.body.begin_time });
    const text = title ?? texts.no_connection;
    if (answer.status === 0 && isEntry) {
      this.entry.isKnown = false;
      this.entry.isUnknown = true;
      return this.say(texts.entry_unknown, "bad");
    }
    if (answer.status === 0) {
      // There may be an order all the same: asked when the server is there again.
      this.isUnknown = true;
      doubt();
      return this.say(texts.unknown, "bad");
    }
    const gaveUp = answer.status >= 429;
    this.say(gaveUp ? sentences(text, texts.try_again) : text, "bad");
  }

  // Not before the server says, and not all at one moment.
  async wait(why, seconds, number) {
    const until = performance.now() + seconds * 1000 + Math.random() * (500 + seconds * 500);
    for (;;) {
      const left = until - performance.now();
      if (left <= 0) break;
      const values = { seconds: Math.ceil(left / 1000), number, all: MAX_TRIES };
      this.say(sentences(why, fill(texts.next_try, values)), "wait");
      await sleep(Math.min(left, 250));
    }
    this.say("");
  }
}
