// What the sandbox says of a payment. Nothing here needs a page to be loaded.

import { fill } from "./words.js";

// What became of the payment: [text, kind]; null while nothing has.
export function outcomeOf({ status, order_status: order }, texts) {
  const state = texts[`order_${order}`] ?? order;
  if (status === "applied" && order === "paid") return [texts.applied, "good"];
  if (status === "applied") return [fill(texts.applied_before, { state }), "good"];
  if (status === "failed") return [texts.failed, "bad"];
  if (status === "given_back")
    return [order === "cancelled" ? texts.back_cancelled : fill(texts.back, { state }), "bad"];
  return null;
}

// What there is to say, [text, kind], or null: what became of it; else of a press of which nothing came, `trouble`, until the
// next press; else that it is paid later; else that nobody waits for the money any more.
export function saidOf(payment, { trouble, isPromised }, texts) {
  const { order_status: order } = payment;
  const said = outcomeOf(payment, texts) ?? trouble;
  if (said) return said;
  if (isPromised) return [texts.will_pay, "wait"];
  return order === "unpaid" ? null : [fill(texts.too_late, { state: texts[`order_${order}`] ?? order }), "wait"];
}
