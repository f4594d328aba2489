// The lanes: what each actor did and where it stands, the voucher's row between them, and the lock as a bar.

import { withCode } from "./lab_file.js";
import { byId, element, language, texts } from "./page.js";
import { fill, lastOf } from "./words.js";

const separator = language.startsWith("zh") ? "，" : ", ";

// One moment of a session. `events` are those up to then, `step` the step that led there.
export function showLanes(frame, events, step) {
  const rung = texts.rungs.find((one) => one.id === frame.rung);
  byId("lanes").classList.toggle("with-consumer", frame.actors.length > 2);
  for (const actor of frame.actors) showHead(actor, events);
  showRow(frame);
  const locks = frame.locks.map(lock);
  byId("locks").replaceChildren(...(locks.length ? locks : [noLock(rung)]));
  showTimeline(events, step);
}

// There is one lane beside those of the buyers: of the consumer, or of what ends orders that are not paid.
const lane = (name) => (name[0] === "T" ? "C" : name[0]);

function showHead(actor, events) {
  const card = document.querySelector(`[data-buyer="${lane(actor.name)}"]`);
  const last = lastOf(events.filter((event) => event.actor === actor.name));
  const isKilled = actor.at === "killed";
  const ended = isKilled ? texts.killed : texts.through;
  card.classList.toggle("over", actor.is_over);
  card.querySelector("h3").textContent = actor.name;
  card.setAttribute("aria-label", actor.name);
  const who = actor.user ? texts.buyer : actor.name === "T" ? texts.time_actor : texts.consumer;
  card.querySelector(".who").textContent = fill(who, actor);
  card
    .querySelector(".at")
    .replaceChildren(
      ...(actor.is_over ? [element("b", {}, ended), ...(last && !isKilled ? [" · "] : [])] : []),
      ...(isKilled ? [] : [last?.text ?? (actor.is_over ? "" : texts.not_begun)]),
    );
}

function showRow(frame) {
  const number = (order) => order.name.replace(/\D/g, "");
  const orders = frame.orders.map((order) => fill(texts.order_is, { ...order, number: number(order) }));
  const told = frame.actors.filter((actor) => actor.at === "ordered" || actor.at === "accepted").length;
  const promised = told - frame.orders.length;
  const owed = frame.is_over ? texts.promised_never : texts.promised;
  byId("state").replaceChildren(
    element("dt", {}, texts.row),
    element("dd", { class: frame.row.stock < 0 ? "bad" : undefined }, fill(texts.row_is, frame.row)),
    element("dt", {}, texts.orders),
    ...(orders.length ? orders : [texts.no_orders]).map((order) => element("dd", {}, order)),
    ...(promised > 0 ? [element("dd", { class: "promised" }, fill(owed, { count: promised }))] : []),
  );
}

function lock(held) {
  const parts = [
    held.holder ? fill(texts.held_by, held) : texts.held_by_nobody,
    held.holds === null ? null : fill(texts.holds_times, held),
  ];
  if (held.kind === "first in the queue") parts.push(texts.place_first);
  else if (held.kind === "in the queue") parts.push(texts.place);
  else if (held.ttl_ms === null) parts.push(texts.no_lease);
  else parts.push(fill(texts.lease_left, { seconds: Math.ceil(held.ttl_ms / 1000) }));
  const of = held.holder ? `of-${held.holder.toLowerCase()}` : "of-somebody";
  const name = element("code", {}, held.key);
  const said = parts.filter(Boolean).join(separator);
  return element("p", { class: `lock ${of}` }, element("span", {}, `${held.server} `, name, ` ${said}`));
}

function noLock(rung) {
  const { none, row, database, mutex, stream } = {
    none: texts.lock_none,
    row: texts.lock_row,
    database: texts.lock_database,
    mutex: texts.lock_mutex,
    stream: texts.lock_stream,
  };
  const said = { none, row, database, mutex, stream }[rung.lock] ?? texts.no_locks;
  return element("p", { class: "lock free" }, element("span", {}, ...withCode(said)));
}

function showTimeline(events, step) {
  const line = (event) => {
    const of = event.actor ? `of-${lane(event.actor).toLowerCase()}` : "of-lab";
    return element(
      "li",
      { class: event.step === step ? `${of} now` : of },
      element("span", { class: "step-number" }, String(event.step)),
      element("span", { class: "actor" }, event.actor ?? "·"),
      element("span", {}, event.text),
    );
  };
  const nothing = element("li", { class: "of-lab soft" }, texts.nothing_yet);
  byId("timeline").replaceChildren(...(events.length ? events.map(line) : [nothing]));
  const last = lastOf(events);
  byId("last").textContent = last ? `${last.actor ?? ""} ${last.text}` : "";
  byId("lanes").scrollTop = byId("lanes").scrollHeight;
  // The page may scroll, too, and the buttons lie over its end. The newest step itself is no measure: it
  // arrives from above.
  if (step === 0) return;
  const [steps, controls] = [byId("timeline"), byId("controls")];
  steps.lastElementChild.scrollIntoView({ block: "nearest" });
  const covered = steps.getBoundingClientRect().bottom - controls.getBoundingClientRect().top;
  if (covered > 0) scrollBy(0, covered);
}
