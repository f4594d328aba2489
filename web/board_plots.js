// The plots of the sale that is watched: of the time in which it sells. Their points outlive a reload of the
// page, not the window.

import { column, isPoint, shownSpan, withoutStock, withPoint } from "./board_points.js";
import { byId, language, tabStorage, texts } from "./page.js";

const KEPT_AS = "board-points";
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
    return (JSON.parse(tabStorage.get(KEPT_AS)) ?? []).filter(isPoint);
  } catch {
    return [];
  }
}

// Adds a point: a figure a column, null where there is none.
export function add(figures) {
  points = withPoint(points, figures, Date.now() / 1000);
  tabStorage.set(KEPT_AS, JSON.stringify(points));
  draw();
}

// Another sale has another stock.
export function forgetStock() {
  points = withoutStock(points);
  tabStorage.set(KEPT_AS, JSON.stringify(points));
  draw();
}

function draw() {
  shown = shownSpan(points, Date.now() / 1000);
  for (const { plot, names } of plots) plot.setData(["time", ...names].map((name) => column(points, name)));
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
