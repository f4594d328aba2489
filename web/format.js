// How amounts, times and states are written, in the language of the page.

import { fill, language, texts } from "./page.js";

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

// What is left, as a clock: `00:12:34`, with the days before it where there are any.
export function clock(ms) {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  const two = (number) => String(number).padStart(2, "0");
  const days = Math.floor(seconds / 86_400);
  const rest = `${two(Math.floor(seconds / 3600) % 24)}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  return days ? fill(texts.days, { days, rest }) : rest;
}

// The same without hours where there are none: `12:34`.
export const shortClock = (ms) => clock(ms).replace(/^00:/, "");

// Where an order stands. One that is used, and whose money went back all the same, has a state of its own here, and so
// has one that was cancelled because it was not paid in time.
export function stateOf({ status, charged_back_at: backAt, cancelled_at: cancelledAt, pay_by: payBy }) {
  if (backAt) return "charged_back";
  const isExpired = status === "cancelled" && payBy && Date.parse(cancelledAt) >= Date.parse(payBy);
  return isExpired ? "expired" : status;
}

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
