// The figures of the board: what two readings of /metrics say of the time between them, and the peaks of the
// sale that is watched.

import * as plots from "./board_plots.js";
import * as metrics from "./metrics.js";
import { byId, element, language, tabStorage, texts } from "./page.js";
import { fill, lastOf } from "./words.js";

// Latency and batches are of so many readings.
const WINDOW = 10;
const PEAKS = "board-peaks";
// Sales whose peaks are kept.
const MAX_SALES = 32;
const whole = new Intl.NumberFormat(language, { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat(language, { maximumSignificantDigits: 3 });

// The last readings, the oldest first.
let readings = [];
// The highest figures while a sale is watched, by sale; a reload keeps them.
const peaks = new Map(Object.entries(keptPeaks()));
let watched = null;

function keptPeaks() {
  try {
    return JSON.parse(tabStorage.get(PEAKS)) ?? {};
  } catch {
    return {};
  }
}

export function show(id, text, className = "") {
  const place = byId(`figure-${id}`);
  place.textContent = text;
  place.className = className;
}

export function forgetReadings() {
  readings = [];
}

// Each sale has peaks of its own, and a stock. The rest of the plots is the server's.
export function watchSale(sale) {
  if (watched === sale) return;
  if (watched !== null) plots.forgetStock();
  watched = sale;
  showPeaks();
}

// The process whose figures were read last.
export const lastProcess = () => lastOf(readings)?.process ?? null;

// Where the server does not answer, nobody knows how its stores are.
export function showStores({ status, body }) {
  for (const [id, word] of Object.entries({ postgres: body?.database, redis: body?.redis })) {
    if (status === 0 || !word) show(id, texts.unknown);
    else show(id, word === "ok" ? texts.ok : texts.unavailable, word === "ok" ? "kept" : "broken");
  }
}

function milliseconds(seconds) {
  if (seconds === null) return "–";
  return seconds === Infinity ? texts.beyond : `${short.format(seconds * 1000)} ms`;
}

function inMs(seconds) {
  return seconds === null ? null : Math.min(seconds, 5) * 1000;
}

export function showReading(reading, stock) {
  // Another process has counted other purchases.
  if (lastProcess() !== reading.process) readings = [];
  const before = lastOf(readings);
  // The server says the same text again for a while.
  const isNew = before?.uptime !== reading.uptime;
  if (isNew) readings = [...readings, reading].slice(-WINDOW - 1);
  const [count, limit] = [reading.inFlightPeak, reading.limit].map((figure) => whole.format(figure));
  show("in-flight", fill(texts.of_limit, { count, limit }));
  show("queue", whole.format(reading.queuePeak));
  show("strategy", reading.strategy);
  if (!before) {
    showPeaks();
    showOutcomes({}, reading.outcomes, 1);
    return;
  }
  if (!isNew) return;
  // By the server's own clock: an answer may have been long under way.
  const seconds = reading.uptime - before.uptime;
  const now = metrics.since(before, reading);
  const lately = metrics.since(readings[0], reading);
  const orders = metrics.ordered(now.outcomes) / seconds;
  const refusals = metrics.refused(now.outcomes) / seconds;
  show("orders", whole.format(orders));
  show("refused", whole.format(refusals));
  keepPeaks({ orders, refusals });
  show("p50", milliseconds(metrics.quantile(lately.latency, 0.5)));
  show("p99", milliseconds(metrics.quantile(lately.latency, 0.99)));
  const batch = metrics.mean(lately.batches);
  show("batch", batch === null ? "–" : short.format(batch));
  showOutcomes(now.outcomes, reading.outcomes, seconds);
  plots.add({
    orders,
    refusals,
    stock,
    p50: inMs(metrics.quantile(now.latency, 0.5)),
    p99: inMs(metrics.quantile(now.latency, 0.99)),
    inFlight: reading.inFlightPeak,
    queue: reading.queuePeak,
  });
}

function keepPeaks(figures) {
  const highest = peaks.get(watched) ?? {};
  for (const [name, value] of Object.entries(figures)) highest[name] = Math.max(highest[name] ?? 0, value);
  // The last in the map was watched last.
  peaks.delete(watched);
  peaks.set(watched, highest);
  for (const sale of [...peaks.keys()].slice(0, -MAX_SALES)) peaks.delete(sale);
  tabStorage.set(PEAKS, JSON.stringify(Object.fromEntries(peaks)));
  showPeaks();
}

function showPeaks() {
  const { orders, refusals } = peaks.get(watched) ?? {};
  for (const [id, value] of Object.entries({ orders, refused: refusals })) {
    byId(`peak-${id}`).textContent = fill(texts.peak, { count: whole.format(value ?? 0) });
  }
}

function showOutcomes(now, all, seconds) {
  const rows = Object.entries(all)
    .filter(([, count]) => count > 0)
    .sort((a, b) => b[1] - a[1]);
  const cells = rows.map(([code, count]) =>
    element(
      "tr",
      { "data-code": code },
      element("th", { scope: "row" }, texts[`code_${code}`] ?? code),
      element("td", { class: "number" }, whole.format((now[code] ?? 0) / seconds)),
      element("td", { class: "number" }, whole.format(count)),
    ),
  );
  const empty = element("tr", {}, element("td", { colSpan: 3 }, texts.none_yet));
  byId("outcomes").replaceChildren(...(cells.length > 0 ? cells : [empty]));
}
