// The figures of the board: what two readings of /metrics say of the time between them.

import * as plot from "./board_plot.js";
import * as metrics from "./metrics.js";
import { byId, element, language, texts } from "./page.js";

const whole = new Intl.NumberFormat(language, { maximumFractionDigits: 0 });

let last = null;

export function show(id, text, className = "") {
  const place = byId(`figure-${id}`);
  place.textContent = text;
  place.className = className;
}

export function forgetReading() {
  last = null;
}

// The process whose figures were read last.
export const lastProcess = () => last?.process ?? null;

export function showReading(reading) {
  // Another process has counted other purchases.
  const before = last?.process === reading.process ? last : null;
  // The server says the same text again for a while.
  if (before?.uptime === reading.uptime) return;
  last = reading;
  const rates = before ? metrics.rates(before, reading) : {};
  showOutcomes(rates, reading.outcomes);
  if (!before) return;
  const orders = rates.ordered ?? 0;
  show("orders", whole.format(orders));
  plot.add(orders);
}

function showOutcomes(rates, all) {
  const rows = Object.entries(all)
    .filter(([, count]) => count > 0)
    .sort((a, b) => b[1] - a[1]);
  const cells = rows.map(([code, count]) =>
    element(
      "tr",
      { "data-code": code },
      element("th", { scope: "row" }, texts[`code_${code}`] ?? code),
      element("td", { class: "number" }, whole.format(rates[code] ?? 0)),
      element("td", { class: "number" }, whole.format(count)),
    ),
  );
  const empty = element("tr", {}, element("td", { colSpan: 3 }, texts.none_yet));
  byId("outcomes").replaceChildren(...(cells.length > 0 ? cells : [empty]));
}
