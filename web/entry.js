// A buyer's entry for a voucher that is drawn, or that has a line: what there is to say of it, leaving, and how it was
// drawn. Each card has one; the card's button enters.

import { addressOf, api } from "./api.js";
import { setText } from "./format.js";
import { about, serverNow } from "./live.js";
import { ask, orderOf } from "./my_orders.js";
import { element, language, texts } from "./page.js";
import { isSure } from "./question.js";
import { apiAsUser, logIn, session } from "./session.js";
import { entryState } from "./states.js";
import { fill, isolated, sentences } from "./words.js";

// The first in line ask as often as for an order; whoever stands further behind asks less often, for thousands may wait,
// but soon enough to pay for what is offered all the same.
const PER_PLACE_MS = 100;
const PER_SECOND_TO_PAY_MS = 50;
const ASKS_WITHIN_MS = 60_000;
// What is published of a draw is less than a second old.
const PUBLISHED_AFTER_MS = 1_300;
const dates = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" });
const numbers = new Intl.NumberFormat(language);

export class Entry {
  constructor(card) {
    this.card = card;
    this.text = element("p", { class: "entry", role: "status", tabIndex: -1 });
    this.leaveButton = element("button", { class: "leave quiet", type: "button" }, texts.leave_line);
    this.leaveButton.addEventListener("click", () => this.leave());
    this.summary = element("summary");
    this.published = element("div");
    this.draw = element("details", { class: "draw" }, this.summary, this.published);
    this.draw.addEventListener("toggle", () => this.showDraw());
    this.forget();
  }

  path() {
    return `/api/vouchers/${this.card.voucher.id}/entries`;
  }

  state() {
    return entryState(this.entry, this.card.order);
  }

  // Whether it waits for the draw, or in line.
  isWaiting(status) {
    return status !== "ended" && ["entered", "in_line"].includes(this.state());
  }

  // Whether the entries of the draw are closed, also where the sale is paused.
  isClosed() {
    const { draw_time: closesAt } = this.card.voucher;
    return Boolean(closesAt) && serverNow() >= Date.parse(closesAt);
  }

  render(status) {
    const { line, draw_time: closesAt } = this.card.voucher;
    this.text.hidden = !line;
    this.draw.hidden = !closesAt;
    this.leaveButton.hidden = !this.isWaiting(status) || (this.state() === "entered" && this.isClosed());
    if (!line) return;
    setText(this.text, this.sentence(status));
    setText(this.leaveButton, this.state() === "entered" ? texts.leave_draw : texts.leave_line);
    // What is published changes when the entries are closed, and when they are drawn.
    const phase = { upcoming: "draw_open", draw_open: "draw_open", draw_closed: "draw_closed" }[status] ?? "drawn";
    setText(this.summary, phase === "drawn" ? texts.how_it_was_drawn : texts.how_it_is_drawn);
    if (this.phase && phase !== this.phase) setTimeout(() => this.showDraw(), about(PUBLISHED_AFTER_MS));
    this.phase = phase;
  }

  sentence(status) {
    const { draw_time: closesAt, draw_beacon: beacon } = this.card.voucher;
    const { entry_id: id, place, offered_in_the_last_hour: count } = this.entry ?? {};
    const state = this.state();
    if (state === "in_line" && status !== "ended") {
      const values = { place: numbers.format(place), count: numbers.format(count) };
      return fill(place === 1 ? texts.next_in_line : texts.in_line, values);
    }
    if (["offered", "bought", "missed", "given_back", "removed"].includes(state)) return texts[`entry_${state}`];
    if (status === "ended") return texts.line_is_over;
    const entered = state === "entered" ? fill(texts.entered, { entry: id }) : "";
    if (status === "draw_closed" || (entered && this.isClosed())) {
      const comes = beacon ? fill(texts.draw_waits, { beacon: isolated(beacon) }) : texts.draw_comes;
      return entered ? sentences(entered, comes) : comes;
    }
    if (entered) return sentences(entered, texts.come_back);
    if (closesAt && serverNow() < Date.parse(closesAt)) {
      return fill(texts.draw_until, { at: dates.format(new Date(closesAt)) });
    }
    return status === "line_open" ? texts.line_open_now : texts.line_comes;
  }

  // Asks where it stands, where that may have changed. Returns whether the server answers.
  async ask() {
    const status = this.card.status();
    if (!this.card.voucher.line || !session() || status === "upcoming") return true;
    // What was offered just before the end is still to be paid: those who waited ask once more.
    const isOver = status === "ended";
    if (isOver && (this.askedAfterTheEnd || !["entered", "in_line"].includes(this.entry?.status))) return true;
    const isDue = {
      entered: status === "paused" ? this.isClosed() : !["draw_open", "draw_closed"].includes(status),
      in_line: performance.now() >= this.askAt,
    }[this.entry?.status];
    if (this.isKnown && !isDue && !isOver) return true;
    const [before, buyer] = [this.entry, session().token];
    const answer = await apiAsUser("GET", this.path());
    const isLate = session()?.token !== buyer || this.entry !== before;
    if (!isLate && (answer.ok || answer.status === 404)) {
      this.askedAfterTheEnd = isOver;
      await this.learn(answer.ok ? answer.body : null);
    }
    return answer.status !== 0;
  }

  async learn(entry) {
    this.entry = entry;
    this.isKnown = true;
    const [byPlace, byTime] = [
      (entry?.place ?? 0) * PER_PLACE_MS,
      this.card.voucher.pay_within_s * PER_SECOND_TO_PAY_MS,
    ];
    this.askAt = performance.now() + Math.min(byPlace, byTime, ASKS_WITHIN_MS);
    if (this.isUnknown) this.card.say(entry ? "" : texts.try_again);
    this.isUnknown = false;
    this.card.render();
    const order = entry?.order_id;
    if (order && orderOf(this.card.voucher.id)?.order_id !== order && !(await ask(order))) this.isKnown = false;
  }

  forget() {
    this.entry = null;
    this.isKnown = false;
    this.isUnknown = false; // whether the answer of who entered was lost
    this.askAt = 0;
    this.askedAfterTheEnd = false;
  }

  async leave() {
    const { leave_title: title, leave_about: about, leave_yes: yes, leave_no: no } = texts;
    if (!(await isSure({ title, about, yes, no }))) return;
    this.leaveButton.disabled = true;
    const answer = await apiAsUser("DELETE", this.path());
    this.leaveButton.disabled = false;
    if (answer.status === 401) return logIn(null, answer.body?.title);
    this.card.say(answer.ok ? "" : (answer.body?.title ?? texts.no_connection), "bad");
    if (answer.ok) await this.learn(null);
    else this.isKnown = false;
    if (document.activeElement === document.body) this.text.focus({ preventScroll: true });
  }

  // Shows what is published of the draw, while somebody looks.
  async showDraw() {
    if (!this.draw.open) return;
    const { id } = this.card.voucher;
    const path = `/api/vouchers/${id}/draw`;
    const { ok, body } = await api("GET", path);
    if (!ok) return this.published.replaceChildren(body?.title ?? texts.no_connection);
    const time = (instant) => instant && dates.format(new Date(instant));
    const rows = [
      [texts.draw_closes, time(body.draw_time)],
      [texts.draw_seed_hash, body.seed_hash],
      [texts.draw_beacon, body.beacon ? isolated(body.beacon) : texts.no_beacon],
      [texts.draw_number, body.number],
      [texts.draw_entries, body.entries && numbers.format(body.entries.length)],
      [texts.draw_entries_hash, body.entries_hash],
      [texts.draw_seed, body.seed],
      [texts.drawn_at, time(body.drawn_at)],
      [texts.draw_cancelled_at, time(body.cancelled_at)],
      [texts.draw_ended_at, time(body.ended_at)],
      [texts.previous_draw, body.previous_draw],
      [texts.your_entry, this.entry?.entry_id],
    ].filter(([, value]) => value);
    const name = `draw-${id}.json`;
    const check = [
      element("p", {}, element("a", { href: addressOf(path), download: name }, texts.save_draw)),
      element("p", {}, texts.verify_draw, " ", element("code", {}, `seckill draw verify ${name}`)),
    ];
    this.published.replaceChildren(
      element("p", {}, body.beacon ? texts.about_draw_with_beacon : texts.about_draw),
      element("dl", {}, ...rows.flatMap(([label, value]) => [element("dt", {}, label), element("dd", {}, value)])),
      ...(body.drawn_at ? check : []),
    );
  }
}
