// Money that waits to be given back, that went back in part or twice, and that belongs to no payment.

import * as board from "./board.js";
import { money } from "./format.js";
import { byId, element, language, texts } from "./page.js";
import { isAsking, isSure } from "./question.js";
import { fill } from "./words.js";

const time = new Intl.DateTimeFormat(language, { dateStyle: "short", timeStyle: "medium" });
const at = (instant) => time.format(new Date(instant));

function cells(labels, values) {
  return values.map((value, at) => element("td", { "data-label": labels[at] }, value));
}

// When and how a part went back, and whether it came again.
function wentBack({ amount, at: time, by, undone_at: undone }) {
  const values = { amount: money(amount), by: texts[`by_${by}`] ?? by, time: at(time) };
  const line = fill(texts.returned_part, values);
  return element(
    "div",
    { class: "hint" },
    undone ? fill(texts.returned_undone, { part: line, time: at(undone) }) : line,
  );
}

function refund({ order_id: order, amount, reason, attempts, last_error: error, next_attempt_at, returns, ...rest }) {
  const twice = rest.given_back_twice_at;
  const labels = [texts.order, texts.amount, texts.reason, texts.tries, texts.next_attempt, texts.last_error];
  const first = texts[`reason_${reason}`] ?? reason;
  const again = twice && fill(texts.given_back_twice, { reason: first, time: at(twice) });
  const why = twice ? element("strong", { class: "broken" }, again) : first;
  const next = next_attempt_at ? at(next_attempt_at) : "–";
  const sum = element("div", {}, money(amount), ...returns.map(wentBack));
  return cells(labels, [order, sum, why, String(attempts), next, error ?? "–"]);
}

async function resolve({ id, transaction_id: transaction, amount }) {
  const about = fill(texts.resolve_question, { transaction, amount: money(amount) });
  if (isAsking() || !(await isSure({ title: texts.resolve, about, yes: texts.resolve, no: texts.no }))) return;
  await board.ask("POST", `/api/payments/unmatched/${id}/resolution`);
  await readUnmatched();
}

function unmatched(one) {
  const { transaction_id: transaction, payment_id: payment, amount, received_at: received } = one;
  const { returned_at, resolved_at } = one;
  const isBack = returned_at && received;
  const labels = [texts.transaction, texts.payment, texts.amount, texts.received, texts.returned, texts.resolved];
  const returned = returned_at ? at(returned_at) : texts.not_returned;
  const button = element("button", { class: "quiet", type: "button" }, texts.resolve);
  button.addEventListener("click", () => resolve(one));
  const resolved = resolved_at ? at(resolved_at) : isBack ? "–" : button;
  return cells(labels, [transaction, payment, money(amount), received ? at(received) : "–", returned, resolved]);
}

async function read(path, id, cellsOf, none) {
  const answer = await board.ask("GET", path);
  if (!answer.ok) return;
  byId(id).parentElement.hidden = answer.body.length === 0;
  byId(id).replaceChildren(...answer.body.map((one) => element("tr", {}, ...cellsOf(one))));
  byId(`${id}-none`).textContent = answer.body.length === 0 ? none : "";
}

const readUnmatched = () => read("/api/payments/unmatched?limit=100", "unmatched", unmatched, texts.no_unmatched);

board.everySecond(async (isFifth) => {
  if (!isFifth) return;
  await read("/api/refunds?limit=100", "refunds", refund, texts.no_refunds);
  await readUnmatched();
});
