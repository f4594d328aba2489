// Forms of the board: what is wrong stands beside its field.

import { byId, texts } from "./page.js";

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

// The whole number in a field; null when it holds none from `least` to `most`.
export function wholeNumber(id, least, most) {
  const text = byId(id).value.trim();
  const value = /^[0-9]{1,10}$/.test(text) ? Number(text) : NaN;
  return value >= least && value <= most ? value : null;
}

// The instant in a field: undefined when it is empty, null when it is none.
function instant(id) {
  const field = byId(id);
  if (field.validity.badInput) return null;
  if (field.value === "") return undefined;
  const time = new Date(field.value).getTime();
  return time >= 0 && time <= LAST_TIME ? time : null;
}

// The sale that the form describes, as the API takes it; null when it says what is wrong.
export function newSale() {
  const title = byId("title").value.trim();
  const stock = wholeNumber("stock", 0, 2_147_483_647);
  const [begin, end] = [instant("begin"), instant("end")];
  const wrong = [];
  if (title.length < 1 || [...title].length > 200) wrong.push(["title", texts.title_wrong]);
  if (stock === null) wrong.push(["stock", texts.stock_wrong]);
  if (begin === null) wrong.push(["begin", texts.time_wrong]);
  if (end === null) wrong.push(["end", texts.time_wrong]);
  if (end && end <= (begin ?? Date.now())) wrong.push(["end", texts.end_wrong]);
  if (!show(["title", "stock", "begin", "end"], wrong)) return null;
  const at = (time) => (time === undefined ? undefined : new Date(time).toISOString());
  return { title, stock, begin_time: at(begin), end_time: at(end) };
}
