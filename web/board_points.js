// The points of the board's plot, each [time in seconds since 1970, orders a second]: which are kept, and of what time they are
// shown. Nothing here needs a page to be loaded.

import { lastOf } from "./words.js";

// So long the last points are kept, and for longer those of the time that is shown, up to so many.
const SECONDS = 300;
const MAX_POINTS = 1_200;
// Where nobody looked for so long, no line is drawn. (A server that is busy answers late.)
const BREAK_S = 15;
// Orders with so much silence between them are of one time.
const GAP_S = 30;
// The least that is shown, and what is shown while nothing has been sold yet.
const LEAST_S = 8;
const IDLE_S = 60;

export const isPoint = (it) => Array.isArray(it) && it.length === 2;

// With a point of `now`; `orders` null: nobody knows.
export function withPoint(points, orders, now) {
  const all = [...points];
  const last = lastOf(all);
  if (last && now - last[0] > BREAK_S) all.push([last[0] + 1, null]);
  all.push([now, orders]);
  const [from, to] = activeSpan(all) ?? [now, now];
  return all.filter(([time]) => now - time <= SECONDS || (time >= from && time <= to)).slice(-MAX_POINTS);
}

// The time from the first to the last order of the last rush: [from, to]; null: there was none.
function activeSpan(points) {
  let span = null;
  for (const [time, orders] of points) {
    if (!(orders > 0)) continue;
    const isSame = span !== null && time - span[1] <= GAP_S;
    // A point tells of the second before it.
    span = [isSame ? span[0] : time - 1, time];
  }
  return span;
}

// What is to be seen `now`.
export function shownSpan(points, now) {
  const span = activeSpan(points);
  if (!span) return [now - IDLE_S, now];
  const margin = Math.max(1, (span[1] - span[0]) * 0.05);
  const from = span[0] - margin;
  return [from, Math.max(Math.min(span[1] + margin, now), from + LEAST_S)];
}
