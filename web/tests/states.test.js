import assert from "node:assert";
import { test } from "node:test";
import { byPlace, decisiveOrder, entryState, olderPart, saleStatus, stateOf } from "../states.js";

const [EARLY, NOON, LATE] = ["2026-11-12T06:00:00Z", "2026-11-12T12:00:00Z", "2026-11-12T18:00:00Z"];
const at = (instant) => Date.parse(instant);

test("an order that is charged back, or was not paid in time, has a state of its own", () => {
  for (const [order, state] of [
    [{ status: "paid" }, "paid"],
    [{ status: "used", amount: 8000, returned_amount: 0 }, "used"],
    [{ status: "used", amount: 8000, returned_amount: 8000, charged_back_at: NOON }, "charged_back"],
    [{ status: "used", amount: 8000, returned_amount: 3000 }, "partly_returned"],
    [{ status: "refunded", amount: 8000, returned_amount: 8000 }, "refunded"],
    [{ status: "refunded", amount: 8000, returned_amount: 0 }, "charge_back_won"],
    [{ status: "refunded", amount: 0, returned_amount: 0 }, "refunded"],
    [{ status: "cancelled", cancelled_at: NOON, pay_by: NOON }, "expired"],
    [{ status: "cancelled", cancelled_at: EARLY, pay_by: NOON }, "cancelled"],
    [{ status: "cancelled" }, "cancelled"],
    [{ status: "unpaid", pay_by: NOON }, "unpaid"],
  ]) {
    assert.equal(stateOf(order), state);
  }
});

test("of a buyer's orders of a voucher the live one counts, else the newest", () => {
  const order = (id, status) => ({ order_id: id, status });
  const [old, live] = [order("9", "paid"), order("661897216000000001", "cancelled")];
  assert.equal(decisiveOrder([live, old]), old);
  const newest = order("661897216000000002", "refunded");
  // By number: not as texts, and exactly.
  assert.equal(decisiveOrder([order("9", "refunded"), live, newest]), newest);
  assert.equal(decisiveOrder([]), null);
  const again = { ...order("661897216000000003", "refunding"), refunded_at: NOON };
  assert.equal(decisiveOrder([again, old]), old);
});

test("what became of an offer is said by its order at once", () => {
  const entry = (status) => ({ status, order_id: "7" });
  const order = (status, more = {}) => ({ order_id: "7", status, ...more });
  const expired = { cancelled_at: NOON, pay_by: NOON };
  for (const [its, of, state] of [
    [null, null, null],
    [entry("left"), null, null],
    [entry("removed"), null, "removed"],
    [entry("in_line"), null, "in_line"],
    [entry("offered"), order("unpaid"), "offered"],
    [entry("offered"), order("paid"), "bought"],
    [entry("offered"), order("cancelled", expired), "missed"],
    [entry("offered"), order("cancelled"), "given_back"],
    // Bought beside the line.
    [entry("in_line"), { order_id: "8", status: "paid" }, null],
    [entry("in_line"), { order_id: "8", status: "refunded" }, "in_line"],
  ]) {
    assert.equal(entryState(its, of), state);
  }
});

test("a sale goes on by the server's clock between two words of the server", () => {
  const sale = { status: "on_sale", stock: 5, line: false, begin_time: EARLY, end_time: LATE };
  const drawn = { ...sale, line: true, draw_time: NOON };
  for (const [voucher, now, status] of [
    [{ ...sale, status: "upcoming" }, null, "upcoming"],
    [sale, at(EARLY) - 1, "upcoming"],
    [{ ...sale, status: "upcoming" }, at(EARLY), "on_sale"],
    [{ ...sale, status: "paused" }, at(NOON), "paused"],
    [{ ...sale, status: "paused" }, at(LATE), "ended"],
    [{ ...sale, stock: 0 }, at(NOON), "sold_out"],
    [{ ...sale, stock: 0, line: true }, at(NOON), "line_open"],
    // Stock that came back belongs to the line.
    [{ ...sale, status: "line_open", line: true }, at(NOON), "line_open"],
    [{ ...drawn, status: "upcoming" }, at(EARLY), "draw_open"],
    [{ ...drawn, status: "draw_open" }, at(NOON) - 1, "draw_open"],
    [{ ...drawn, status: "draw_open" }, at(NOON), "draw_closed"],
    [{ ...drawn, status: "on_sale" }, at(NOON), "on_sale"],
    [sale, at(LATE) - 1, "on_sale"],
    [sale, at(LATE), "ended"],
  ]) {
    assert.equal(saleStatus(voucher, now), status, JSON.stringify([voucher, now]));
  }
});

test("what can be bought comes first, then what comes soonest, and what is over is last", () => {
  // Neither the order in which they were made nor its reverse.
  const sales = [
    { id: "1", status: "ended", begin: -3 },
    { id: "2", status: "on_sale", begin: -1 },
    { id: "3", status: "upcoming", begin: 1 },
    { id: "4", status: "sold_out", begin: -1 },
    { id: "5", status: "upcoming", begin: 6 },
    { id: "10", status: "line_open", begin: -1 },
    { id: "7", status: "paused", begin: -1 },
    { id: "8", status: "upcoming", begin: 1 },
  ];
  const ids = sales.sort(byPlace).map(({ id }) => id);
  assert.deepEqual(ids, ["10", "2", "7", "8", "3", "5", "4", "1"]);
});

test("sales that newer ones have pushed from the first page are asked for by turns", () => {
  const ids = Array.from({ length: 25 }, (_, at) => String(at + 1));
  assert.equal(olderPart(ids.slice(0, 20), 20, 2, 0), null);
  // The oldest are 5 to 1; what is before them is the twentieth.
  const parts = [0, 1, 2, 3].map((turn) => olderPart(ids, 20, 2, turn));
  assert.deepEqual(parts, [
    ["6", 2],
    ["4", 2],
    ["2", 1],
    ["6", 2],
  ]);
});
