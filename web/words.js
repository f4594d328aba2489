// How a sentence is put together. Nothing here needs a page to be loaded.

// `text` with `{name}` replaced by the value of that name.
export function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

// A text and a sentence after it. The title of a problem, or what ends with a number, has no stop of its own.
export function sentences(text, next) {
  const [stop, gap] = document.documentElement.lang === "zh-CN" ? ["。", ""] : [".", " "];
  return text + (/\p{P}$/u.test(text) ? "" : stop) + gap + next;
}

// `text` in a sentence, whatever direction its letters or their marks have (Unicode's isolates).
export const isolated = (text) => `\u2068${text}\u2069`;

// The last of a list. Some browsers that buy here have no `at` yet, and no `AbortSignal.timeout`.
export const lastOf = (list) => list[list.length - 1];

// What is left, as a clock: `00:12:34`, with the days before it, as `days` says them, where there are any.
export function clockOf(ms, days) {
  const seconds = Math.max(0, Math.ceil(ms / 1000));
  const two = (number) => String(number).padStart(2, "0");
  const whole = Math.floor(seconds / 86_400);
  const rest = `${two(Math.floor(seconds / 3600) % 24)}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  return whole ? fill(days, { days: whole, rest }) : rest;
}

// The same without hours where there are none: `12:34`.
export const shortClockOf = (ms, days) => clockOf(ms, days).replace(/^00:/, "");
