// The plots of the sale that is watched: of the time in which it sells. Their points outlive a reload of the
// page, not the window.

import { byId, language, lastOf, tabStorage, texts } from "./page.js";

// So long the last points are kept, and for longer those of the time that is shown, up to so many.
const SECONDS = 300;
const MAX_POINTS = 1_200;
// Purchases with so much silence between them are of one time.
const GAP_S = 30;
// The least that is shown, and what is shown while nothing has been sold yet.
const LEAST_S = 8;
const IDLE_S = 60;
const KEPT_AS = "board-points";
// The columns of a point, in their order.
const COLUMNS = ["time", "orders", "refusals", "p50", "p99", "inFlight", "queue", "stock"];

const clock = new Intl.DateTimeFormat(language, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
});
const number = new Intl.NumberFormat(language, { notation: "compact", maximumFractionDigits: 1 });

let points = kept();
let plots = [];
let shown = [0, 0];

function kept() {
  try {
    const read = JSON.parse(tabStorage.get(KEPT_AS)) ?? [];
    return read.filter((point) => Array.isArray(point) && point.length === COLUMNS.length);
  } catch {
    return [];
  }
}

function column(name) {
  const at = COLUMNS.indexOf(name);
  return points.map((point) => point[at]);
}

// Adds a point: a figure a column, null where there is none.
export function add(figures) {
  const now = Date.now() / 1000;
  const last = lastOf(points);
  // Where nobody looked for a while, no line is drawn. (A server that is busy answers late.)
  if (last && now - last[0] > 15) points.push([last[0] + 1, ...COLUMNS.slice(1).map(() => null)]);
  points.push(COLUMNS.map((name) => (name === "time" ? now : (figures[name] ?? null))));
  const [from, to] = activeSpan() ?? [now, now];
  points = points.filter(([time]) => now - time <= SECONDS || (time >= from && time <= to)).slice(-MAX_POINTS);
  tabStorage.set(KEPT_AS, JSON.stringify(points));
  draw();
}

// Another sale has another stock.
export function forgetStock() {
  const stock = COLUMNS.indexOf("stock");
  for (const point of points) point[stock] = null;
  tabStorage.set(KEPT_AS, JSON.stringify(points));
  draw();
}

// The time from the first to the last purchase of the last rush, in seconds: [from, to]; null: there was none.
function activeSpan() {
  const [orders, refusals, stock] = ["orders", "refusals", "stock"].map((name) => COLUMNS.indexOf(name));
  let span = null;
  points.forEach((point, at) => {
    const before = points[at - 1]?.[stock] ?? null;
    const isSold = before !== null && point[stock] !== null && before !== point[stock];
    if (!(point[orders] > 0 || point[refusals] > 0 || isSold)) return;
    const isSame = span !== null && point[0] - span[1] <= GAP_S;
    // A point tells of the second before it.
    span = [isSame ? span[0] : point[0] - 1, point[0]];
  });
  return span;
}

// What is to be seen now, in seconds since 1970.
function shownSpan() {
  const now = Date.now() / 1000;
  const span = activeSpan();
  if (!span) return [now - IDLE_S, now];
  const margin = Math.max(1, (span[1] - span[0]) * 0.05);
  const from = span[0] - margin;
  return [from, Math.max(Math.min(span[1] + margin, now), from + LEAST_S)];
}

function draw() {
  shown = shownSpan();
  for (const { plot, names } of plots) plot.setData([column("time"), ...names.map(column)]);
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// A plot in the element, of these columns: [[column, label, colour variable]…].
function make(id, series, options = {}) {
  const host = byId(id);
  const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  const powers = (_plot, _at, least, most) => {
    const splits = [];
    for (let power = 10 ** Math.ceil(Math.log10(least)); power <= most; power *= 10) splits.push(power);
    return splits;
  };
  const values = (_, splits) => splits.map((value) => (value === null ? "" : number.format(value)));
  const plot = new uPlot(
    {
      width: Math.max(host.clientWidth, 200),
      height: options.height ?? 160,
      cursor: { show: false },
      legend: { live: false, show: series.length > 1 },
      scales: {
        x: { range: () => shown },
        y: options.log
          ? { distr: 3, range: () => [0.1, 10_000] }
          : { range: (_plot, _least, most) => [0, Math.max(most ?? 0, 10) * 1.1] },
      },
      axes: [
        { ...axis, values: (_, splits) => splits.map((value) => clock.format(value * 1000)), space: 75, size: 30 },
        { ...axis, values, size: 56, ...(options.log && { splits: powers }) },
      ],
      series: [
        {},
        ...series.map(([, label, stroke]) => ({
          label,
          stroke: colour(stroke),
          width: 2,
          // A rush of two seconds is two points, and hardly a line.
          points: { show: (_plot, _series, first, last) => last - first < 60, size: 6, fill: colour(stroke) },
        })),
      ],
    },
    [[], ...series.map(() => [])],
    host,
  );
  return { plot, host, names: series.map(([name]) => name), height: options.height ?? 160 };
}

// Makes the plots, again where the colours have changed.
export function start() {
  for (const { plot } of plots) plot.destroy();
  plots = [
    // The orders have a plot of their own: beside the refusals, of which there are more, they would be flat.
    make("plot-orders", [["orders", texts.series_orders, "--good"]], { height: 200 }),
    make("plot-refusals", [["refusals", texts.series_refusals, "--bad"]]),
    make(
      "plot-latency",
      [
        ["p99", "p99", "--bad"],
        ["p50", "p50", "--link"],
      ],
      { log: true },
    ),
    make("plot-load", [
      ["queue", texts.series_queue, "--bad"],
      ["inFlight", texts.series_flight, "--link"],
    ]),
    make("plot-stock", [["stock", texts.series_stock, "--good"]]),
  ];
  draw();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plots.length > 0 && start());
addEventListener("resize", () => {
  for (const { plot, host, height } of plots) plot.setSize({ width: Math.max(host.clientWidth, 200), height });
});
