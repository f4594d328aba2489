// The points of the board's plots: which are kept, and of what time they are shown. Nothing here needs a page to be loaded.

import { lastOf } from "./words.js";

// So long the last points are kept, and for longer those of the time that is shown, up to so many.
const SECONDS = 300;
const MAX_POINTS = 1_200;
// Where nobody looked for so long, no line is drawn. (A server that is busy answers late.)
const BREAK_S = 15;
// Purchases with so much silence between them are of one time.
const GAP_S = 30;
// The least that is shown, and what is shown while nothing has been sold yet.
const LEAST_S = 8;
const IDLE_S = 60;
// The columns of a point, in their order.
const COLUMNS = ["time", "orders", "refusals", "p50", "p99", "inFlight", "queue", "stock"];
const [ORDERS, REFUSALS, STOCK] = ["orders", "refusals", "stock"].map((name) => COLUMNS.indexOf(name));

export const isPoint = (it) => Array.isArray(it) && it.length === COLUMNS.length;

export function column(points, name) {
  const at = COLUMNS.indexOf(name);
  return points.map((point) => point[at]);
}

// With a point of `now`, in seconds since 1970: a figure a column, null where there is none.
export function withPoint(points, figures, now) {
  const all = [...points];
  const last = lastOf(all);
  if (last && now - last[0] > BREAK_S) all.push([last[0] + 1, ...COLUMNS.slice(1).map(() => null)]);
  all.push(COLUMNS.map((name) => (name === "time" ? now : (figures[name] ?? null))));
  const [from, to] = activeSpan(all) ?? [now, now];
  return all.filter(([time]) => now - time <= SECONDS || (time >= from && time <= to)).slice(-MAX_POINTS);
}

// Another sale has another stock.
export const withoutStock = (points) =>
  points.map((point) => point.map((figure, at) => (at === STOCK ? null : figure)));

// The time from the first to the last purchase of the last rush, in seconds: [from, to]; null: there was none.
function activeSpan(points) {
  let span = null;
  points.forEach((point, at) => {
    const before = points[at - 1]?.[STOCK] ?? null;
    const isSold = before !== null && point[STOCK] !== null && before !== point[STOCK];
    if (!(point[ORDERS] > 0 || point[REFUSALS] > 0 || isSold)) return;
    const isSame = span !== null && point[0] - span[1] <= GAP_S;
    // A point tells of the second before it.
    span = [isSame ? span[0] : point[0] - 1, point[0]];
  });
  return span;
}

// What is to be seen `now`, in seconds since 1970.
export function shownSpan(points, now) {
  const span = activeSpan(points);
  if (!span) return [now - IDLE_S, now];
  const margin = Math.max(1, (span[1] - span[0]) * 0.05);
  const from = span[0] - margin;
  return [from, Math.max(Math.min(span[1] + margin, now), from + LEAST_S)];
}
