// What can be done about an unpaid order: the time that is left, Pay and Cancel. A card has one, and so has
// each row of the list.

import { sleep } from "./api.js";
import { payInApp, sayInApp } from "./app_payment.js";
import { money, setText, shortClock } from "./format.js";
import { serverNow } from "./live.js";
import { ask, learn } from "./my_orders.js";
import { element, texts } from "./page.js";
import { isOfTheWeb } from "./pay_url.js";
import { isSure } from "./question.js";
import { apiAsUser, logIn, session } from "./session.js";
import { fill, sentences } from "./words.js";

// A browser that has not left for the payment page after so long stays here.
const LEAVES_WITHIN_MS = 5_000;
const ASK_AGAIN_MS = 2_000;

export class OrderActions {
  // `message`: where it says what became of a press.
  constructor(message) {
    this.message = message;
    this.time = element("p", { class: "pay-within", role: "timer" });
    this.payButton = element("button", { class: "pay primary", type: "button" }, texts.pay);
    this.cancelButton = element("button", { class: "cancel quiet", type: "button" }, texts.cancel_order);
    this.node = element(
      "div",
      { class: "order-actions", hidden: true },
      this.time,
      element("div", { class: "buttons" }, this.payButton, this.cancelButton),
    );
    this.isBusy = false;
    this.payButton.addEventListener("click", () => this.press(this.payButton, () => this.pay()));
    this.cancelButton.addEventListener("click", () => this.press(this.cancelButton, () => this.cancel()));
  }

  // Shows itself while `order`, which may be null, waits for its money.
  show(order) {
    this.order = order;
    this.node.hidden = order?.status !== "unpaid";
    if (!this.node.hidden) this.render();
  }

  render() {
    if (this.node.hidden) return;
    const now = serverNow();
    const left = now === null ? null : Date.parse(this.order.pay_by) - now;
    const text =
      left === null ? "" : left > 0 ? fill(texts.pay_within, { time: shortClock(left) }) : texts.time_is_over;
    setText(this.time, text);
    sayInApp(this.order, text);
    setText(this.payButton, `${texts.pay} ${money(this.order.amount)}`);
    this.payButton.disabled = this.cancelButton.disabled = this.isBusy;
  }

  say(text, kind = "bad") {
    this.message.dataset.kind = kind;
    setText(this.message, text);
  }

  // Meanwhile the buttons are disabled: one that is pressed twice does its work once.
  async press(button, work) {
    this.isBusy = true;
    this.render();
    try {
      await work();
    } finally {
      this.isBusy = false;
      this.render();
    }
    // A button that is disabled, or gone, loses the focus; a buyer who has gone on keeps it. What cannot be seen takes none,
    // and a dialog that was just closed has it for another moment.
    const focused = document.activeElement;
    if (focused !== document.body && !focused?.closest("dialog:not([open])")) return;
    button.focus();
    if (document.activeElement !== button) this.message.focus();
  }

  async pay() {
    this.say("");
    const answer = await apiAsUser("POST", `/api/orders/${this.order.order_id}/payments`, { timeout: 30_000 });
    if (!answer.ok) return this.refused(answer, texts.pay_unknown);
    const { pay_url: url } = answer.body;
    if (!isOfTheWeb(url)) return payInApp(this.order, url, this.time.textContent);
    location.assign(url);
    const isBack = new Promise((resolve) => addEventListener("pageshow", resolve, { once: true }));
    await Promise.race([isBack, sleep(LEAVES_WITHIN_MS)]);
  }

  async cancel() {
    const { cancel_title: title, cancel_about: about, cancel_yes: yes, cancel_no: no } = texts;
    if (!(await isSure({ title, about, yes, no }))) return;
    this.say("");
    const answer = await apiAsUser("POST", `/api/orders/${this.order.order_id}/cancellation`);
    if (answer.ok) learn(answer.body);
    else await this.refused(answer, texts.cancel_unknown);
  }

  async refused(answer, whenLost) {
    const { code, order_status: status, title } = answer.body ?? {};
    if (answer.status === 401) return logIn(null, title);
    if (answer.status === 0) return this.lost(whenLost);
    if (code === "order_state") {
      learn({ ...this.order, status });
      return this.say(fill(texts.order_is_now, { state: texts[`order_${status}`] }));
    }
    const text = title ?? texts.no_connection;
    this.say(answer.status >= 429 ? sentences(text, texts.try_again) : text);
  }

  // Nobody knows what became of it until the server says how the order is.
  async lost(whatIsUnknown) {
    // The page asks by itself, too: what it has learnt meanwhile, it has said.
    if (this.order?.status !== "unpaid") return;
    this.say(whatIsUnknown);
    const [id, buyer] = [this.order.order_id, session()?.token];
    for (;;) {
      const order = await ask(id);
      if (session()?.token !== buyer) return;
      if (order?.status === "unpaid") return this.say(texts.still_unpaid, "wait");
      if (order) return;
      await sleep(ASK_AGAIN_MS);
    }
  }
}
