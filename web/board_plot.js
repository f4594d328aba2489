// The plot of the board: the orders a second of the time in which something was sold. Its points outlive a reload of the page,
// not the window.

import { isPoint, shownSpan, withPoint } from "./board_points.js";
import { byId, language, tabStorage } from "./page.js";

const KEPT_AS = "board-points";
const HEIGHT = 200;
const clock = new Intl.DateTimeFormat(language, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hour12: false,
});
const number = new Intl.NumberFormat(language, { notation: "compact", maximumFractionDigits: 1 });
const host = byId("plot-orders");

let points = kept();
let plot = null;
let shown = [0, 0];

function kept() {
  try {
    return (JSON.parse(tabStorage.get(KEPT_AS)) ?? []).filter(isPoint);
  } catch {
    return [];
  }
}

// Adds a point; null: nobody knows how many orders there were.
export function add(orders) {
  points = withPoint(points, orders, Date.now() / 1000);
  tabStorage.set(KEPT_AS, JSON.stringify(points));
  draw();
}

function draw() {
  shown = shownSpan(points, Date.now() / 1000);
  plot?.setData([points.map(([time]) => time), points.map(([, orders]) => orders)]);
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

const size = () => ({ width: Math.max(host.clientWidth, 200), height: HEIGHT });

// Makes the plot, again where the colours have changed.
export function start() {
  plot?.destroy();
  const axis = { stroke: colour("--soft"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
  const stroke = colour("--good");
  plot = new uPlot(
    {
      ...size(),
      cursor: { show: false },
      legend: { show: false },
      scales: {
        x: { range: () => shown },
        y: { range: (_plot, _least, most) => [0, Math.max(most ?? 0, 10) * 1.1] },
      },
      axes: [
        { ...axis, values: (_, splits) => splits.map((value) => clock.format(value * 1000)), space: 75, size: 30 },
        { ...axis, values: (_, splits) => splits.map((value) => number.format(value)), size: 56 },
      ],
      series: [
        {},
        {
          stroke,
          width: 2,
          // A rush of two seconds is two points, and hardly a line.
          points: { show: (_plot, _series, first, last) => last - first < 60, size: 6, fill: stroke },
        },
      ],
    },
    [[], []],
    host,
  );
  draw();
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plot && start());
addEventListener("resize", () => plot?.setSize(size()));
