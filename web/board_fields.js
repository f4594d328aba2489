// What the text of a field says: undefined when it is empty and may be, null when it is wrong. Nothing here needs a page to be
// loaded.

// A whole number from `least` to `most`.
export function wholeNumber(text, least, most) {
  const value = /^[0-9]{1,10}$/.test(text.trim()) ? Number(text) : NaN;
  return value >= least && value <= most ? value : null;
}

// A text of so many characters, without the space around it.
export function textOf(text, least, most) {
  const inside = text.trim();
  const length = [...inside].length;
  return length >= least && length <= most ? inside : null;
}

// The source of a public number: a round of drand, or a name and an instant.
export function beaconOf(text) {
  if (text.trim() === "") return undefined;
  return /^(drand:quicknet:[1-9][0-9]*|[^@].*@[0-9]{4}-.+)$/.test(text.trim()) ? textOf(text, 1, 200) : null;
}

// An amount of money with so many decimals, in the smallest unit.
export function amountOf(text, digits) {
  const inside = text.trim();
  if (inside === "") return undefined;
  const amount = new RegExp(digits ? `^[0-9]{1,10}([.][0-9]{1,${digits}})?$` : "^[0-9]{1,13}$");
  return amount.test(inside) ? Math.round(Number(inside) * 10 ** digits) : null;
}

// A time to pay, which is written in minutes, in seconds.
export function secondsOf(text) {
  const inside = text.trim();
  if (inside === "") return undefined;
  const value = /^[0-9]{1,5}([.][0-9]+)?$/.test(inside) ? Math.round(Number(inside) * 60) : 0;
  return value >= 1 && value <= 2_592_000 ? value : null;
}
