// How amounts and times are written, in the language of the page.

import { language, texts } from "./page.js";
import { clockOf, shortClockOf } from "./words.js";

// The currency of the page. The API counts in its smallest unit.
export const { currency } = document.documentElement.dataset;
export const digits = Number(document.documentElement.dataset.decimals);
const price = new Intl.NumberFormat(language, {
  style: "currency",
  currency,
  currencyDisplay: "narrowSymbol",
  minimumFractionDigits: digits,
  maximumFractionDigits: digits,
});

export const money = (amount) => price.format(amount / 10 ** digits);

// What is left, with hours and without.
export const clock = (ms) => clockOf(ms, texts.days);
export const shortClock = (ms) => shortClockOf(ms, texts.days);

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
