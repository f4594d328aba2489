import assert from "node:assert";
import { test } from "node:test";
import { saidOf } from "../sandbox_words.js";

const TEXTS = {
  applied: "Paid.",
  applied_before: "Paid. It is now: {state}.",
  failed: "Declined.",
  back: "Back: {state}.",
  back_cancelled: "Back: it was cancelled.",
  will_pay: "Later.",
  too_late: "Too late: {state}.",
  order_cancelled: "Cancelled",
};
const TROUBLE = ["Try again.", "bad"];
const said = (status, order, more = {}) =>
  saidOf({ status, order_status: order }, { trouble: null, isPromised: false, ...more }, TEXTS);

test("what became of a payment is said by the state of its order", () => {
  for (const [status, order, text, kind] of [
    ["applied", "paid", "Paid.", "good"],
    ["applied", "used", "Paid. It is now: used.", "good"],
    ["failed", "unpaid", "Declined.", "bad"],
    ["given_back", "cancelled", "Back: it was cancelled.", "bad"],
    ["given_back", "paid", "Back: paid.", "bad"],
  ]) {
    // Whatever was said of a press before.
    for (const more of [{}, { trouble: TROUBLE }, { isPromised: true }]) {
      assert.deepEqual(said(status, order, more), [text, kind]);
    }
  }
});

test("while nothing became of it, trouble is said until the next press, then what is promised, then that it is too late", () => {
  assert.equal(said("pending", "unpaid"), null);
  assert.deepEqual(said("pending", "unpaid", { isPromised: true }), ["Later.", "wait"]);
  assert.deepEqual(said("pending", "cancelled", { isPromised: true }), ["Later.", "wait"]);
  assert.deepEqual(said("pending", "cancelled"), ["Too late: Cancelled.", "wait"]);
  for (const order of ["unpaid", "cancelled"]) {
    assert.equal(said("pending", order, { trouble: TROUBLE, isPromised: true }), TROUBLE);
  }
});
