// Money that waits to be given back, money that went back twice, and money that belongs to no payment.

import * as board from "./board.js";
import { money } from "./format.js";
import { byId, element, language, texts } from "./page.js";
import { fill } from "./words.js";

const time = new Intl.DateTimeFormat(language, { dateStyle: "short", timeStyle: "medium" });
const at = (instant) => time.format(new Date(instant));

function cells(labels, values) {
  return values.map((value, at) => element("td", { "data-label": labels[at] }, value));
}

function refund({ order_id: order, amount, reason, attempts, last_error: error, next_attempt_at, ...rest }) {
  const twice = rest.given_back_twice_at;
  const labels = [texts.order, texts.amount, texts.reason, texts.tries, texts.next_attempt, texts.last_error];
  const first = texts[`reason_${reason}`] ?? reason;
  const again = twice && fill(texts.given_back_twice, { reason: first, time: at(twice) });
  const why = twice ? element("strong", { class: "broken" }, again) : first;
  const next = twice ? "–" : at(next_attempt_at);
  return cells(labels, [order, money(amount), why, String(attempts), next, error ?? "–"]);
}

function unmatched({ transaction_id: transaction, payment_id: payment, amount, received_at: received, returned_at }) {
  const labels = [texts.transaction, texts.payment, texts.amount, texts.received, texts.returned];
  const returned = returned_at ? at(returned_at) : texts.not_returned;
  return cells(labels, [transaction, payment, money(amount), at(received), returned]);
}

async function read(path, id, cellsOf, none) {
  const answer = await board.ask("GET", path);
  if (!answer.ok) return;
  byId(id).parentElement.hidden = answer.body.length === 0;
  byId(id).replaceChildren(...answer.body.map((one) => element("tr", {}, ...cellsOf(one))));
  byId(`${id}-none`).textContent = answer.body.length === 0 ? none : "";
}

board.everySecond(async (isFifth) => {
  if (!isFifth) return;
  await read("/api/refunds", "refunds", refund, texts.no_refunds);
  await read("/api/payments/unmatched", "unmatched", unmatched, texts.no_unmatched);
});
