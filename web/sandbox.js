// The sandbox: pays, declines, or pays too late, and says what became of the payment.

import { api } from "./api.js";
import { money, setText, shortClock } from "./format.js";
import { byId, texts } from "./page.js";
import { outcomeOf, saidOf } from "./sandbox_words.js";
import { lastOf, sentences } from "./words.js";

const LOOK_EVERY_MS = 1_000;
const id = decodeURIComponent(lastOf(location.pathname.split("/")));
const path = `/api/sandbox/payments/${encodeURIComponent(id)}`;
const buttons = [...document.querySelectorAll("[data-action]")];
let payment = null;
// What to add to `performance.now()` for the time by the clock that payments go by.
let offset = 0;
let isBusy = false;
let isPromised = false; // it is paid later
let trouble = null; // what there is to say of a press of which nothing came: [text, kind]

function say(text, kind = "") {
  const place = byId("result");
  place.dataset.kind = kind;
  setText(place, text);
}

function render() {
  const isUnpaid = payment.order_status === "unpaid";
  setText(byId("order-state"), texts[`order_${payment.order_status}`] ?? payment.order_status);
  const left = Date.parse(payment.pay_by) - (performance.now() + offset);
  byId("left-line").hidden = !isUnpaid;
  setText(byId("left"), left > 0 ? shortClock(left) : texts.time_is_over);
  byId("choices").hidden = outcomeOf(payment, texts) !== null;
  for (const button of buttons) {
    button.disabled = isBusy || isPromised;
    // There is nothing left to decline.
    if (button.dataset.action === "decline") button.closest("li").hidden = !isUnpaid;
  }
  const said = saidOf(payment, { trouble, isPromised }, texts);
  if (said) say(...said);
}

async function look() {
  const answer = await api("GET", path);
  byId("away").hidden = answer.status === 404 || answer.ok;
  byId("missing").hidden = answer.status !== 404;
  byId("payment").hidden = answer.status === 404 || (!answer.ok && payment === null);
  if (!answer.ok) return;
  payment = answer.body;
  offset = Date.parse(payment.now) - performance.now();
  setText(byId("amount"), money(payment.amount));
  setText(byId("order"), payment.payment_id.split(".")[1]);
  render();
}

// Meanwhile the buttons are disabled: one that is pressed twice does its work once.
async function press(action) {
  isBusy = true;
  trouble = null;
  say("");
  render();
  const answer = await api("POST", path, { body: { action } });
  isBusy = false;
  isPromised = answer.status === 202;
  if (answer.status === 0) say(texts.lost, "bad");
  else if (!answer.ok) trouble = [sentences(answer.body?.title ?? texts.away, texts.try_again), "bad"];
  await look();
  if (answer.status === 0) trouble = [texts.not_paid, "wait"];
  byId("result").focus();
}

for (const button of buttons) button.addEventListener("click", () => press(button.dataset.action));

async function lookOn() {
  if (!document.hidden && !isBusy) await look();
  setTimeout(lookOn, LOOK_EVERY_MS);
}
document.addEventListener("visibilitychange", () => document.hidden || look());
setInterval(() => payment && render(), 250);
lookOn();
