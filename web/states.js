// Where an order, an entry and a sale stand, by what the server has said. Nothing here needs a page to be loaded.

// Where an order stands. One that is used, and whose money went back all the same, in whole or in part, has a state of its own
// here, and so has one that is refunded though a charge-back of it was won, and one that was not paid in time.
export function stateOf(order) {
  const { status, amount, returned_amount: returned, cancelled_at: cancelledAt, pay_by: payBy } = order;
  if (order.charged_back_at) return "charged_back";
  if (status === "used" && returned > 0) return "partly_returned";
  if (status === "refunded" && returned < amount) return "charge_back_won";
  const isExpired = status === "cancelled" && payBy && Date.parse(cancelledAt) >= Date.parse(payBy);
  return isExpired ? "expired" : status;
}

// A buyer has one live order of a voucher at most; after it, another one can be bought. An order that was refunded is not live
// any more, also if the refund failed and it is being refunded again.
export const isLive = ({ status, refunded_at: refundedAt }) =>
  !["cancelled", "refunded"].includes(status) && !refundedAt;

// Of the orders of one voucher the one that counts: the live one, else the newest.
export function decisiveOrder(orders) {
  const newestFirst = [...orders].sort((a, b) => byNewest(a.order_id, b.order_id));
  return orders.find(isLive) ?? newestFirst[0] ?? null;
}

// Where an entry for a draw or a line stands; null: there is none that counts. The order of an offer says it at once.
export function entryState(entry, order) {
  if (!entry || entry.status === "left") return null;
  if (order?.order_id === entry.order_id) {
    if (isLive(order)) return order.status === "unpaid" ? "offered" : "bought";
    return stateOf(order) === "expired" ? "missed" : "given_back";
  }
  return order && isLive(order) ? null : entry.status;
}

// Where the sale of a voucher stands at this instant; null: as the server has said last.
export function saleStatus(voucher, now) {
  const { status, stock, line, draw_time: drawTime } = voucher;
  if (now === null) return status;
  if (now < Date.parse(voucher.begin_time)) return "upcoming";
  if (now >= Date.parse(voucher.end_time)) return "ended";
  if (status === "paused") return "paused";
  if (status === "draw_open" || (status === "upcoming" && drawTime)) {
    return now < Date.parse(drawTime) ? "draw_open" : "draw_closed";
  }
  if (status !== "line_open" && stock > 0) return "on_sale";
  return line ? "line_open" : "sold_out";
}

// Where a sale stands in the list; what is in no other place is over.
const PLACES = { on_sale: 0, draw_open: 0, draw_closed: 0, line_open: 0, paused: 1, upcoming: 2 };
export const OVER = 3;
export const placeOf = (status) => PLACES[status] ?? OVER;

// On sale first, then what comes soonest, then what is over; the newest first. Of each: {id, status, begin}.
export function byPlace(a, b) {
  const difference = placeOf(a.status) - placeOf(b.status);
  if (difference !== 0) return difference;
  const isSooner = placeOf(a.status) === PLACES.upcoming && a.begin !== b.begin;
  return isSooner ? a.begin - b.begin : byNewest(a.id, b.id);
}

// Of the sales of these ids those that neither events nor polls cover, beyond the `newest` ones: so many at once, by turns.
// [the one before them, how many]; null: there are none.
export function olderPart(ids, newest, atOnce, turn) {
  const parts = Math.ceil((ids.length - newest) / atOnce);
  if (parts <= 0) return null;
  const begin = newest + (turn % parts) * atOnce;
  return [[...ids].sort(byNewest)[begin - 1], Math.min(ids.length - begin, atOnce)];
}

// Of two ids the newer one first.
export const byNewest = (a, b) => (BigInt(a) < BigInt(b) ? 1 : -1);
