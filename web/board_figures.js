// The figures of the board: what two readings of /metrics say of the time between them, and the peaks of the
// sale that is watched.

import * as plots from "./board_plots.js";
import * as metrics from "./metrics.js";
import { byId, element, fill, language, tabStorage, texts } from "./page.js";

// Latency and batches are of so many readings.
const WINDOW = 10;
const PEAKS = "board-peaks";
const whole = new Intl.NumberFormat(language, { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat(language, { maximumSignificantDigits: 3 });

// The last readings, the oldest first: {at, reading}.
let readings = [];
// The highest figures since this sale is watched; a reload keeps them.
let peaks = keptPeaks();

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

// The peaks and the plots are of one sale.
export function watchSale(sale) {
  if (peaks.sale === sale) return;
  peaks = { sale };
  tabStorage.set(PEAKS, JSON.stringify(peaks));
  plots.forget();
  showPeaks();
}

// The process whose figures were read last.
export const lastProcess = () => readings.at(-1)?.reading.process ?? null;

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
  const at = performance.now();
  // Another process has counted other purchases.
  if (lastProcess() !== reading.process) readings = [];
  const before = readings.at(-1);
  readings = [...readings, { at, reading }].slice(-WINDOW - 1);
  const [count, limit] = [reading.inFlightPeak, reading.limit].map((figure) => whole.format(figure));
  show("in-flight", fill(texts.of_limit, { count, limit }));
  show("queue", whole.format(reading.queuePeak));
  show("strategy", reading.strategy);
  if (!before) {
    showPeaks();
    showOutcomes({}, reading.outcomes, 1);
    return;
  }
  const seconds = (at - before.at) / 1000;
  const now = metrics.since(before.reading, reading);
  const lately = metrics.since(readings[0].reading, reading);
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
  for (const [name, value] of Object.entries(figures)) peaks[name] = Math.max(peaks[name] ?? 0, value);
  tabStorage.set(PEAKS, JSON.stringify(peaks));
  showPeaks();
}

function showPeaks() {
  for (const [id, value] of Object.entries({ orders: peaks.orders, refused: peaks.refusals })) {
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
