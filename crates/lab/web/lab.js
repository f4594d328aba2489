// The ladder, played by whoever looks at the page. The address holds the schedule; the server holds
// one session, and plays a schedule anew when a step is taken back.

import { api, byId, element, fill, language, tabStorage, texts } from "./page.js";

const SESSION = "lab-session";
const SETTINGS = ["users", "processes", "stock"];
// What an open session may take on a slow machine: two servers start.
const OPENS_WITHIN = 120_000;
const STARTING_SHOWN_AFTER_MS = 300;

// Made up here, so that it is known also when an answer is lost. (randomUUID needs TLS.)
const session = nameOfSession();
let plan = null;
let state = null;
// The steps that were taken back, the next one first.
let undone = "";
let file = null;
// One request at a time: who types fast is not overtaken.
let turn = Promise.resolve();

const rungs = new Map(texts.rungs.map((rung) => [rung.id, rung]));
const inTurn = (action) => {
  turn = turn.then(action).catch(() => say(texts.failed));
  return turn;
};

// Of this tab, as far as the browser keeps anything.
function nameOfSession() {
  const name = tabStorage.get(SESSION) ?? randomName();
  tabStorage.set(SESSION, name);
  return name;
}

function randomName() {
  const digits = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

// The address

function planOf(address) {
  const asked = address.searchParams;
  const named = known(asked.get("rung"));
  const rung = named ?? texts.rungs[0];
  const lesson = rung.lessons.find((one) => one.breaks) ?? rung.lessons[0];
  // A schedule without settings has those of the API.
  const plain = asked.has("schedule") || !lesson;
  const usual = plain ? { users: 2, processes: 2, stock: 1 } : lesson;
  const number = (name) => (asked.has(name) ? Number(asked.get(name)) : usual[name]);
  const settings = Object.fromEntries(SETTINGS.map((name) => [name, number(name)]));
  // What is no rung the server says.
  return { rung: named?.id ?? asked.get("rung") ?? rung.id, ...settings };
}

function known(name) {
  return name && (rungs.get(name) ?? texts.rungs.find((rung) => rung.id.startsWith(`${name}_`)));
}

function keepAddress(push = false) {
  const address = new URL(location.href);
  const values = { ...plan, schedule: state?.schedule ?? "" };
  for (const [name, value] of Object.entries(values)) address.searchParams.set(name, value);
  history[push ? "pushState" : "replaceState"](null, "", address);
}

// What is asked of the server

async function open(schedule) {
  const body = { ...plan, schedule, session };
  const slow = setTimeout(() => say(texts.starting), STARTING_SHOWN_AFTER_MS);
  byId("player").setAttribute("aria-busy", "true");
  const answer = await api("POST", "/api/lab/sessions", { body, timeout: OPENS_WITHIN });
  byId("player").setAttribute("aria-busy", "false");
  clearTimeout(slow);
  if (!answer.ok) return failed(answer, () => open(schedule));
  const { refused } = answer.body;
  say(refused ? fill(texts.cannot_go_on, { why: refused }) : null);
  show(answer.body);
}

async function step(actor) {
  if (!state || !canStep(actor)) return;
  undone = undone.startsWith(actor) ? undone.slice(1) : "";
  const answer = await api("POST", `/api/lab/sessions/${session}/steps`, { body: { actor } });
  // It has ended meanwhile; the schedule has not.
  if (answer.status === 404) return open(state.schedule + actor);
  if (!answer.ok) return failed(answer, () => open(state.schedule));
  say(null);
  show(answer.body);
}

async function undo() {
  if (!state?.schedule) return;
  const last = state.schedule.length - 1;
  undone = state.schedule[last] + undone;
  await open(state.schedule.slice(0, last));
}

async function redo() {
  if (undone) await step(undone[0]);
}

async function restart() {
  if (!state?.schedule) return;
  undone = state.schedule + undone;
  await open("");
}

function canStep(actor) {
  if (actor === "L") return state.lease_can_end;
  return state.actors.find((one) => one.name === actor)?.can_step ?? false;
}

// Tried again only when somebody asks for it: a window that nobody looks at must not take the session
// from those who play.
function failed(answer, again) {
  const why = answer.body?.detail ?? texts.failed;
  say(`${answer.body?.title ?? ""} ${why}`.trim(), again);
}

function say(text, again) {
  const message = byId("message");
  message.hidden = !text;
  message.replaceChildren(text ?? "");
  if (!again) return;
  const button = element("button", { type: "button" }, texts.try_again);
  button.addEventListener("click", () => inTurn(again));
  message.append(" ", button);
}

// What is shown

function show(played) {
  state = played;
  plan = { rung: state.rung, users: state.users, processes: state.processes, stock: state.stock };
  keepAddress();
  for (const actor of state.actors) showBuyer(actor);
  byId("lease").disabled = !state.lease_can_end;
  byId("undo").disabled = byId("restart").disabled = !state.schedule;
  byId("redo").disabled = !undone;
  byId("schedule").value = state.schedule || "–";
  showNow();
  showTimeline();
  showVerdict();
  mark();
}

function showBuyer(actor) {
  const card = document.querySelector(`[data-buyer="${actor.name}"]`);
  const last = state.timeline.findLast((event) => event.actor === actor.name);
  card.querySelector("button").disabled = !actor.can_step;
  card.querySelector(".who").textContent = fill(texts.buyer, actor);
  card
    .querySelector(".at")
    .replaceChildren(
      ...(actor.is_over ? [element("b", {}, texts.through), " · "] : []),
      last ? told(last) : texts.not_begun,
    );
}

// An event in the language of the page; the server says it in English.
function told(event) {
  const pattern = texts[`kind_${event.kind}`];
  return pattern ? fill(pattern, event) : event.text;
}

function showNow() {
  const rung = rungs.get(state.rung);
  const { lock_none: none_taken, lock_database: database, lock_mutex: mutex } = texts;
  const none = { none: none_taken, database, mutex }[rung.lock] ?? texts.no_locks;
  const orders = state.orders.map((order) => fill(texts.order_is, { ...order, number: order.name.replace(/\D/g, "") }));
  const list = (items, otherwise) =>
    items.length ? items.map((item) => element("dd", {}, item)) : [element("dd", { class: "soft" }, otherwise)];
  byId("state").replaceChildren(
    element("dt", {}, texts.row),
    element("dd", { class: state.row.stock < 0 ? "bad" : undefined }, fill(texts.row_is, state.row)),
    element("dt", {}, texts.orders),
    ...list(orders, texts.no_orders),
    element("dt", {}, texts.locks),
    ...list(state.locks.map(lock), none),
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
  const name = element("code", {}, held.key);
  const separator = language.startsWith("zh") ? "，" : ", ";
  return element("span", {}, `${held.server} `, name, " ", parts.filter(Boolean).join(separator));
}

function showTimeline() {
  const line = (event) =>
    element(
      "li",
      { class: event.actor ? `of-${event.actor.toLowerCase()}` : "of-lab" },
      element("span", { class: "step-number" }, String(event.step)),
      element("span", { class: "actor" }, event.actor ?? "·"),
      element("span", {}, told(event)),
    );
  const lines = state.timeline.map(line);
  const nothing = element("li", { class: "soft" }, texts.nothing_yet);
  byId("timeline").replaceChildren(...(lines.length ? lines : [nothing]));
  const last = state.timeline.at(-1);
  byId("last").textContent = last ? `${last.actor ?? ""} ${told(last)}` : "";
}

function showVerdict() {
  const verdict = byId("verdict");
  const over = state.actors.every((actor) => actor.is_over);
  verdict.hidden = !over && !state.broken.length;
  verdict.className = `verdict ${state.broken.length ? "bad" : "good"}`;
  if (!state.broken.length) return verdict.replaceChildren(texts.kept);
  const course = `/lab/course?lang=${language}#:~:text=${encodeURIComponent(`# ${state.rung}`)}`;
  verdict.replaceChildren(
    ...state.broken.map((broken) =>
      element(
        "p",
        {},
        element("strong", {}, fill(texts.broken, { promise: broken.invariant })),
        ` (${texts[broken.invariant]}). `,
        witness(broken),
        " ",
        broken.claimed ? texts.was_claimed : texts.not_claimed,
      ),
    ),
    element("a", { href: course }, texts.read_more),
  );
}

// What shows that a promise is broken; the server says it in English.
function witness(broken) {
  if (!language.startsWith("zh")) return `${broken.witness[0].toUpperCase()}${broken.witness.slice(1)}.`;
  const orders = state.orders.length;
  if (broken.invariant === "no_oversell") {
    return `库存 ${state.row.initial_stock}，订单 ${orders} 张；这一行写着 ${state.row.stock}。`;
  }
  if (broken.invariant === "one_per_user") return `同一个用户有 ${orders} 张订单。`;
  return `有人被告知售罄，而库存还有 ${state.row.stock}。`;
}

// The file

// `text` with what stands between backquotes as code.
function withCode(text) {
  const parts = text.split("`");
  return parts.map((part, nth) => (nth % 2 ? element("code", {}, part) : part));
}

function showRung() {
  const rung = rungs.get(plan.rung) ?? texts.rungs[0];
  const at = texts.rungs.indexOf(rung);
  byId("rung").value = rung.id;
  byId("previous").disabled = at === 0;
  byId("next").disabled = at === texts.rungs.length - 1;
  for (const name of SETTINGS) byId(name).value = plan[name];
  const claims = rung.claims.length ? rung.claims : [texts.claims_nothing];
  const said = (title, ...content) => [element("dt", {}, title), element("dd", {}, ...content)];
  byId("rung-said").replaceChildren(
    element(
      "dl",
      {},
      ...said(texts.idea, ...withCode(rung.idea)),
      ...said(texts.breaks_when, ...withCode(rung.breaks_when)),
      ...said(
        texts.claims,
        ...claims.map((name) => element("span", { class: "claim", title: texts[name] ?? "" }, name)),
      ),
    ),
  );
  byId("lessons").replaceChildren(
    element("span", { class: "soft" }, rung.lessons.length ? texts.lessons : texts.no_lessons),
    ...rung.lessons.map(lessonButton),
  );
}

function lessonButton(lesson) {
  const holds = lesson.breaks === null;
  const outcome = holds ? texts.lesson_holds : fill(texts.lesson_breaks, { promise: lesson.breaks });
  const button = element(
    "button",
    { type: "button", "data-lesson": lesson.scenario },
    `${lesson.story} `,
    element("span", { class: holds ? "good" : "bad" }, outcome),
  );
  button.addEventListener("click", () =>
    inTurn(() => {
      for (const name of SETTINGS) plan[name] = lesson[name];
      undone = "";
      showRung();
      return open(lesson.schedule);
    }),
  );
  return button;
}

async function showFile() {
  const answer = await api("GET", `/api/lab/rungs/${encodeURIComponent(plan.rung)}`);
  if (!answer.ok) return;
  file = answer.body;
  byId("source-title").textContent = `${texts.source}: crates/ladder/src/${file.id}.rs`;
  const token = ({ class: kind, text }) => (kind ? element("span", { class: kind }, text) : text);
  byId("source").replaceChildren(
    ...file.lines.map((line) =>
      element("li", {}, element("span", { class: "marks" }), element("code", {}, ...line.map(token))),
    ),
  );
  const begins = file.lines.findIndex((line) => line.some(({ text }) => text === "buy"));
  byId("source").scrollTop = byId("source").children[begins]?.offsetTop ?? 0;
  const label = (at) => texts.rungs[at]?.id.split("_")[0];
  const at = texts.rungs.findIndex((rung) => rung.id === file.id);
  showDiff("diff-previous", texts.diff_previous, label(at - 1), file.from_previous);
  showDiff("diff-next", texts.diff_next, label(at + 1), file.to_next);
}

function showDiff(name, title, rung, lines) {
  const details = byId(name);
  details.hidden = !lines.length;
  details.querySelector("summary").textContent = fill(title, { rung });
  details.querySelector("pre")?.remove();
  const changed = (line) => line.tag !== "same";
  const close = (nth) => lines.slice(Math.max(0, nth - 2), nth + 3).some(changed);
  // One line alone takes no less room when it is hidden.
  const near = (nth) => close(nth) || (close(nth - 1) && close(nth + 1));
  const shown = element("pre", { tabIndex: 0 });
  let hidden = 0;
  const gap = () => {
    if (hidden) {
      const count = fill(texts.lines_hidden, { count: hidden });
      shown.append(element("span", { class: "gap" }, `⋯ ${count}`), "\n");
    }
    hidden = 0;
  };
  for (const [nth, line] of lines.entries()) {
    if (!near(nth)) {
      hidden += 1;
      continue;
    }
    gap();
    const sign = { same: " ", added: "+", removed: "-" }[line.tag];
    shown.append(element("span", { class: line.tag }, `${sign} ${line.text}`), "\n");
  }
  gap();
  details.append(shown);
}

// Shows in the file where both buyers stand, and brings into view the one that moved last.
function mark() {
  const lines = byId("source").children;
  for (const line of lines) {
    line.classList.remove("at-a", "at-b");
    line.firstChild.replaceChildren();
  }
  for (const actor of state?.actors ?? []) {
    const line = lines[actor.line - 1];
    if (!line) continue;
    line.classList.add(`at-${actor.name.toLowerCase()}`);
    line.firstChild.append(element("b", { class: `mark-${actor.name.toLowerCase()}` }, actor.name));
  }
  const last = state?.timeline.at(-1)?.actor ?? "A";
  const line = lines[state?.actors.find((actor) => actor.name === last)?.line - 1];
  if (!line) return;
  const box = byId("source");
  const above = line.offsetTop;
  if (above < box.scrollTop + 40 || above > box.scrollTop + box.clientHeight - 60) {
    box.scrollTop = above - box.clientHeight / 3;
  }
}

// Another rung, or other settings: from the beginning.

async function go(rung) {
  const next = new URL(location.pathname, location.href);
  next.searchParams.set("rung", rung);
  plan = planOf(next);
  [state, undone] = [null, ""];
  keepAddress(true);
  await arrive("");
}

async function arrive(schedule) {
  byId("schedule").value = "…";
  showRung();
  await Promise.all([open(schedule), showFile()]);
  mark();
}

function neighbour(distance) {
  const at = texts.rungs.findIndex((rung) => rung.id === byId("rung").value);
  const next = texts.rungs[at + distance];
  if (next) inTurn(() => go(next.id));
}

async function changeSettings() {
  for (const name of SETTINGS) plan[name] = Number(byId(name).value);
  undone = "";
  await open("");
}

const MOVES = {
  a: () => inTurn(() => step("A")),
  b: () => inTurn(() => step("B")),
  l: () => inTurn(() => step("L")),
  u: () => inTurn(undo),
  r: () => inTurn(redo),
  n: () => neighbour(1),
  p: () => neighbour(-1),
};

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input, select, textarea");
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  MOVES[event.key.toLowerCase()]?.();
});
for (const button of document.querySelectorAll("[data-step]")) {
  button.addEventListener("click", () => MOVES[button.dataset.step.toLowerCase()]());
}
byId("lease").addEventListener("click", MOVES.l);
byId("undo").addEventListener("click", MOVES.u);
byId("redo").addEventListener("click", MOVES.r);
byId("restart").addEventListener("click", () => inTurn(restart));
byId("previous").addEventListener("click", MOVES.p);
byId("next").addEventListener("click", MOVES.n);
byId("rung").addEventListener("change", (event) => inTurn(() => go(event.target.value)));
for (const name of SETTINGS) byId(name).addEventListener("change", () => inTurn(changeSettings));
byId("settings").addEventListener("submit", (event) => event.preventDefault());

function comeIn(address) {
  plan = planOf(address);
  [state, undone] = [null, ""];
  return arrive(address.searchParams.get("schedule") ?? "");
}
// The address as it is now: an answer that is under way will write its own.
function comeInTurn() {
  const address = new URL(location.href);
  inTurn(() => comeIn(address));
}
addEventListener("popstate", comeInTurn);
comeInTurn();
