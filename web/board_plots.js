// The plots of the last five minutes. Their points outlive a reload of the page, not the window.

import { byId, language, tabStorage, texts } from "./page.js";

const SECONDS = 300;
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
  const last = points.at(-1);
  // Where nobody looked for a while, no line is drawn. (A server that is busy answers late.)
  if (last && now - last[0] > 15) points.push([last[0] + 1, ...COLUMNS.slice(1).map(() => null)]);
  points.push(COLUMNS.map((name) => (name === "time" ? now : (figures[name] ?? null))));
  points = points.filter(([time]) => now - time <= SECONDS);
  tabStorage.set(KEPT_AS, JSON.stringify(points));
  draw();
}

// Another sale has another stock.
export function forgetStock() {
  const at = COLUMNS.indexOf("stock");
  for (const point of points) point[at] = null;
}

function draw() {
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
      height: 180,
      cursor: { show: false },
      legend: { live: false },
      scales: {
        x: { range: () => [Date.now() / 1000 - SECONDS, Date.now() / 1000] },
        y: options.log
          ? { distr: 3, range: () => [0.1, 10_000] }
          : { range: (_plot, _least, most) => [0, Math.max(most ?? 0, 1) * 1.1] },
      },
      axes: [
        { ...axis, values: (_, splits) => splits.map((value) => clock.format(value * 1000)), space: 75 },
        { ...axis, values, size: 56, ...(options.log && { splits: powers }) },
      ],
      series: [
        {},
        ...series.map(([, label, stroke]) => ({
          label,
          stroke: colour(stroke),
          width: 2,
          points: { show: points.length < 3, size: 5 },
        })),
      ],
    },
    [[], ...series.map(() => [])],
    host,
  );
  return { plot, host, names: series.map(([name]) => name) };
}

// Makes the plots, again where the colours have changed.
export function start() {
  for (const { plot } of plots) plot.destroy();
  plots = [
    // The orders are drawn over the refusals, of which there are more.
    make("plot-rates", [
      ["refusals", texts.series_refusals, "--bad"],
      ["orders", texts.series_orders, "--good"],
    ]),
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
  for (const { plot, host } of plots) plot.setSize({ width: Math.max(host.clientWidth, 200), height: 180 });
});
