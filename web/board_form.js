// Forms of the board: what is wrong stands beside its field.

import { amountOf, beaconOf, secondsOf, textOf, wholeNumber } from "./board_fields.js";
import { currency, digits } from "./format.js";
import { byId, texts } from "./page.js";
import { fill } from "./words.js";

const LAST_TIME = Date.UTC(9999, 11, 31);

// Marks the fields that are wrong, [[id, sentence]…], the others as right, and goes to the first wrong
// one. Returns whether all are right.
export function show(fields, wrong) {
  for (const id of fields) {
    const found = wrong.find(([name]) => name === id);
    byId(`${id}-error`).textContent = found ? found[1] : "";
    if (found) byId(id).setAttribute("aria-invalid", "true");
    else byId(id).removeAttribute("aria-invalid");
  }
  if (wrong.length > 0) byId(wrong[0][0]).focus();
  return wrong.length === 0;
}

const inField = (id) => byId(id).value;

// The instant in a field: undefined when it is empty, null when it is none.
function instant(id) {
  const field = byId(id);
  if (field.validity.badInput) return null;
  if (field.value === "") return undefined;
  const time = new Date(field.value).getTime();
  return time >= 0 && time <= LAST_TIME ? time : null;
}

for (const id of ["price", "value", "edit-price", "edit-value"]) {
  document.querySelector(`label[for="${id}"]`).append(` (${currency})`);
}

const amount = (id) => amountOf(inField(id), digits);
const amountWrong = fill(texts.amount_wrong, { example: (79.9).toFixed(digits) });

// The fields of a sale: [id, name in the API, what to say when it is wrong, how it is read].
const FIELDS = [
  ["title", "title", texts.title_wrong, (id) => textOf(inField(id), 1, 200)],
  ["subtitle", "subtitle", texts.subtitle_wrong, (id) => textOf(inField(id), 0, 200)],
  ["price", "price", amountWrong, amount],
  ["value", "value", amountWrong, amount],
  ["pay-within", "pay_within_s", texts.pay_within_wrong, (id) => secondsOf(inField(id))],
  ["stock", "stock", texts.stock_wrong, (id) => wholeNumber(inField(id), 0, 2_147_483_647)],
  ["begin", "begin_time", texts.time_wrong, instant],
  ["end", "end_time", texts.time_wrong, instant],
  ["terms", "terms", texts.terms_wrong, (id) => textOf(inField(id), 0, 2_000)],
];
// Those that only a new one has: a draw and a line do not change.
const NEW_FIELDS = [
  ...FIELDS,
  ["line-wanted", "line", "", (id) => byId(id).checked || undefined],
  ["draw", "draw_time", texts.time_wrong, instant],
  ["beacon", "draw_beacon", texts.beacon_wrong, (id) => beaconOf(inField(id))],
];

// The sale in the form whose ids begin so; null when it says what is wrong. `isNew`: what is empty has a
// default.
function saleIn(prefix, isNew) {
  const [sale, wrong] = [{}, []];
  const fields = isNew ? NEW_FIELDS : FIELDS;
  for (const [id, name, sentence, read] of fields) {
    let value = read(prefix + id);
    if (value === undefined && !isNew) value = read === amount ? 0 : null;
    if (value === null) wrong.push([prefix + id, sentence]);
    sale[name] = value;
  }
  const { begin_time: begin, end_time: end } = sale;
  if (end && end <= (begin ?? Date.now())) wrong.push([`${prefix}end`, texts.end_wrong]);
  const { draw_time: draw, draw_beacon: beacon } = sale;
  if (draw && (draw <= (begin ?? Date.now()) || draw >= (end ?? Infinity))) wrong.push(["draw", texts.draw_wrong]);
  if (beacon && draw === undefined) wrong.push(["beacon", texts.beacon_alone]);
  const ids = fields.map(([id]) => prefix + id);
  if (!show(ids, wrong)) return null;
  const at = (time) => (time === undefined ? undefined : new Date(time).toISOString());
  return { ...sale, begin_time: at(begin), end_time: at(end), draw_time: at(draw) };
}

// The sale that the form for a new one describes, as the API takes it; null when it says what is wrong.
export const newSale = () => saleIn("", true);

const raw = () => Object.fromEntries(FIELDS.map(([id]) => [id, byId(`edit-${id}`).value]));

// An instant as a field for a local time has it.
function local(time) {
  const at = new Date(time);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}

const decimal = (amount) => (amount === null ? "" : (amount / 10 ** digits).toFixed(digits));

// Fills the form that edits a sale. Returns what it holds now.
export function fillEdited(voucher) {
  const values = {
    ...voucher,
    price: decimal(voucher.price),
    value: decimal(voucher.value),
    pay_within_s: String(voucher.pay_within_s / 60),
    stock: String(voucher.initial_stock),
    begin_time: local(voucher.begin_time),
    end_time: local(voucher.end_time),
  };
  for (const [id, name] of FIELDS) byId(`edit-${id}`).value = values[name];
  show(
    FIELDS.map(([id]) => `edit-${id}`),
    [],
  );
  return raw();
}

// What was changed since the form held `before`, as the API takes it; null when it says what is wrong. What
// was not touched is left out: another administrator may have changed it meanwhile.
export function editedSale(before) {
  const sale = saleIn("edit-", false);
  if (!sale) return null;
  const now = raw();
  const changed = FIELDS.filter(([id]) => now[id] !== before[id]);
  return Object.fromEntries(changed.map(([, name]) => [name === "stock" ? "initial_stock" : name, sale[name]]));
}
