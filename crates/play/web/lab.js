// The ladder as a game: the reader of the page is the scheduler. The address holds the schedule; the server has a
// session, whose states after each step are kept here, so that every earlier one can be looked at again.

import { showExplored } from "./lab_explored.js";
import { mark, showFile, withCode } from "./lab_file.js";
import * as game from "./lab_goal.js";
import { showLanes } from "./lab_lanes.js";
import { goalOf, parOf, stepsOf } from "./lab_schedule.js";
import { onLook, playThrough, showPosition, stop } from "./lab_scrubber.js";
import { openSession, rungFile, session, takeStep } from "./lab_server.js";
import { byId, element, storage, tabStorage, texts } from "./page.js";
import { fill, lastOf } from "./words.js";

const SETTINGS = ["users", "processes", "stock"];
const STARTING_SHOWN_AFTER_MS = 300;
// The last address to which the reader's own steps led: the other language goes on with them. In the history each
// address knows it by itself.
const OWN = "lab-own";
// Whether keys take steps.
const SHORTCUTS = "lab-shortcuts";

let plan = null;
// What was played: the steps, a state before each of them and one after the last, and all events.
let played = null;
// The state that is looked at.
let at = 0;
// Whether the reader's own steps led to where the session is.
let isOwn = true;
// The address of what is shown: a link to a place on the page changes nothing of it.
let shownSearch = null;
let file = null;
// Whether the server's session is known to be where `played` ends: an answer may have been lost.
let isKnown = false;
// One request at a time: who types fast is not overtaken.
let turn = Promise.resolve();

const rungs = new Map(texts.rungs.map((rung) => [rung.id, rung]));
const inTurn = (action) => {
  turn = turn.then(action).catch(() => say(texts.failed));
  return turn;
};

byId("player").dataset.session = session;

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
  const unpaid = plain ? asked.get("unpaid") === "true" : (lesson.unpaid ?? false);
  // What is no rung the server says.
  return { rung: named?.id ?? asked.get("rung") ?? rung.id, ...settings, unpaid };
}

function known(name) {
  return name && (rungs.get(name) ?? texts.rungs.find((rung) => rung.id.startsWith(`${name}_`)));
}

function keepAddress(push = false) {
  const address = new URL(location.href);
  const values = { ...plan, schedule: seen() };
  for (const [name, value] of Object.entries(values)) address.searchParams.set(name, value);
  if (!plan.unpaid) address.searchParams.delete("unpaid");
  shownSearch = address.search;
  // A browser bears few changes of the history a second, and a key that is held down makes many.
  if (push) history.pushState({ isOwn }, "", address);
  else if (address.href !== location.href || history.state?.isOwn !== isOwn) {
    history.replaceState({ isOwn }, "", address);
  }
}

// What is played

const rungNow = () => rungs.get(plan.rung) ?? texts.rungs[0];
const seen = () => played?.steps.slice(0, at).join("") ?? "";
const whole = () => played.steps.join("");

const frameNow = () => played.frames[at];

// `then` is called when it is there, also when that takes a second try.
async function open(schedule, then = () => {}) {
  isKnown = false;
  const slow = setTimeout(() => say(texts.starting), STARTING_SHOWN_AFTER_MS);
  byId("player").setAttribute("aria-busy", "true");
  const answer = await openSession({ ...plan, schedule });
  byId("player").setAttribute("aria-busy", "false");
  clearTimeout(slow);
  if (!answer.ok) return failed(answer, () => open(schedule, then));
  const { refused, frames = [], timeline, ...state } = answer.body;
  say(refused ? fill(texts.cannot_go_on, { why: refused }) : null);
  plan = Object.fromEntries(["rung", ...SETTINGS, "unpaid"].map((name) => [name, state[name]]));
  played = { rung: state.rung, steps: stepsOf(state.schedule), frames: [...frames, state], timeline };
  isKnown = true;
  if (isOwn && schedule === "") game.hints.begin();
  look(played.steps.length);
  then();
}

// A step from the state that is looked at: the one that was taken there, or another one.
async function step(actor) {
  if (!played || !canStep(actor)) return;
  stop();
  if (at < played.steps.length || !isKnown) {
    if (played.steps[at] === actor) return look(at + 1);
    await open(seen() + actor, afterStep);
    return;
  }
  const answer = await takeStep(actor);
  isKnown = answer.ok;
  if (!answer.ok) return failed(answer, () => open(whole() + actor, afterStep));
  const { timeline, ...state } = answer.body;
  // A step before it was taken, and its answer lost.
  if (state.schedule !== whole() + actor) {
    await open(state.schedule, afterStep);
    return;
  }
  say(null);
  played.steps = stepsOf(state.schedule);
  played.frames.push(state);
  played.timeline = timeline;
  look(played.steps.length);
  afterStep();
}

function afterStep() {
  const { broken } = frameNow();
  const before = new Set(played.frames[at - 1]?.broken.map((one) => one.invariant));
  const news = broken.map((one) => one.invariant).filter((promise) => !before.has(promise));
  if (isOwn && news.length) {
    game.won(played.rung, news, at);
  } else if (isOwn && !broken.length) {
    game.hints.stepTaken();
  }
  showVerdict();
}

async function restart() {
  stop();
  isOwn = true;
  await open("");
}

function canStep(actor) {
  const frame = played.frames[at];
  if (actor === "L") return frame.lease_can_end;
  if (actor === "K") return frame.can_kill;
  if (actor === "S") return frame.can_send_again;
  if (actor.startsWith("P:")) return frame.pause === actor;
  return frame.actors.find((one) => one.name === actor)?.can_step ?? false;
}

// Tried again only when somebody asks for it.
function failed(answer, again) {
  say(answer.body?.detail ?? (answer.status ? texts.failed : texts.gone), again);
}

function say(text, again) {
  const message = byId("message");
  // What is said again is not read out again.
  if (text && !again && message.textContent === text) return;
  message.hidden = !text;
  message.replaceChildren(text ?? "");
  if (!again) return;
  const button = element("button", { type: "button" }, texts.try_again);
  button.addEventListener("click", () => inTurn(again));
  message.append(" ", button);
}

// What is shown

function look(step) {
  if (!played) return;
  at = Math.max(0, Math.min(step, played.steps.length));
  const frame = frameNow();
  byId("lanes").classList.remove("empty");
  keepAddress();
  if (isOwn) tabStorage.set(OWN, location.search.replace(/[?&]lang=[^&]*/, ""));
  const events = played.timeline.slice(0, frame.events);
  showLanes(frame, events, at);
  showPosition(at, played.steps.length);
  document.querySelectorAll("[data-step]").forEach((button, nth) => {
    const actor = frame.actors[nth];
    button.hidden = !actor;
    button.disabled = !actor?.can_step;
    // The third is the consumer, or what ends orders that are not paid.
    if (actor) {
      button.dataset.step = button.firstChild.textContent = actor.name;
      button.setAttribute("aria-keyshortcuts", actor.name.toLowerCase());
    }
    const pays = frame.unpaid && !rungNow().has_line;
    if (actor?.name === "A") button.lastChild.textContent = pays ? texts.pay_step : texts.step;
    if (actor?.user === 0) button.lastChild.textContent = actor.name === "T" ? texts.time_step : texts.consumer_step;
  });
  byId("lease").disabled = !frame.lease_can_end;
  byId("lease").hidden = !rungNow().has_lease;
  byId("kill").disabled = !frame.can_kill;
  byId("kill").hidden = !rungNow().has_kill;
  byId("pause").disabled = !frame.pause;
  byId("pause").hidden = !rungNow().has_pause;
  byId("again").disabled = !frame.can_send_again;
  byId("again").hidden = !rungNow().has_again;
  byId("undo").disabled = at === 0;
  byId("redo").disabled = at === played.steps.length;
  byId("restart").disabled = played.steps.length === 0;
  byId("schedule").value = seen() || "–";
  showVerdict();
  markNow();
}

function markNow() {
  if (!played || file?.id !== played.rung) return;
  const frame = frameNow();
  const last = lastOf(played.timeline.slice(0, frame.events).filter((event) => event.actor))?.actor;
  mark(frame.actors, last ?? "A");
}

function showVerdict() {
  const frame = frameNow();
  const promise = (frame.broken.find((one) => one.invariant === game.currentGoal()?.breaks) ?? frame.broken[0])
    ?.invariant;
  // It was broken when this was first to be seen, however many steps were taken since.
  const count = played.frames.findIndex(({ broken }) => broken.some((one) => one.invariant === promise));
  const settings = file?.id === played.rung ? file.explored : [];
  const par = promise ? parOf(settings, rungNow().lessons, promise, plan) : null;
  game.showVerdict(frame, { own: isOwn, promise, count, par, next: MOVES.n });
  const verdict = byId("verdict");
  if (verdict.hidden) return;
  verdict.scrollIntoView({ block: "nearest" });
  // It takes its place from the list, whose end is what did it.
  byId("lanes").scrollTop = byId("lanes").scrollHeight;
}

function showRung() {
  const rung = rungNow();
  const nth = texts.rungs.indexOf(rung);
  byId("rung").value = rung.id;
  byId("previous").disabled = nth === 0;
  byId("next").disabled = nth === texts.rungs.length - 1;
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
  game.showLadder(rung.id);
  showSettings();
}

function takeSettings(settings) {
  for (const name of SETTINGS) {
    plan[name] = settings[name];
    byId(name).value = settings[name];
  }
  plan.unpaid = settings.unpaid ?? false;
}

function showSettings() {
  for (const name of SETTINGS) byId(name).value = plan[name];
  game.showGoal(rungNow(), goalOf(rungNow().lessons, plan), aimAt, plan.unpaid);
}

async function readFile() {
  const answer = await rungFile(plan.rung);
  if (!answer.ok) return;
  file = answer.body;
  showFile(file);
  showExplored(file.explored, (settings, schedule) => inTurn(() => show(settings, schedule)));
}

// Another goal: from the beginning, with its settings.
function aimAt(lesson) {
  inTurn(async () => {
    takeSettings(lesson);
    game.showGoal(rungNow(), lesson, aimAt);
    byId(lesson.breaks ? "hint" : "goal-card").focus();
    await restart();
  });
}

// A schedule is played at once by the server, and then shown step by step.
async function show(settings, schedule) {
  stop();
  game.stopHints();
  isOwn = false;
  const isOther = SETTINGS.some((name) => plan[name] !== settings[name]) || plan.unpaid !== (settings.unpaid ?? false);
  takeSettings(settings);
  // The goal is that of the settings that are played.
  if (isOther) showSettings();
  await open(schedule, playThrough);
  byId("lanes").scrollIntoView({ block: "nearest" });
}

// Another rung, or other settings: from the beginning.

async function go(rung) {
  const next = new URL(location.pathname, location.href);
  next.searchParams.set("rung", rung);
  plan = planOf(next);
  [played, at, isOwn] = [null, 0, true];
  keepAddress(true);
  await arrive("");
}

async function arrive(schedule) {
  stop();
  byId("verdict").hidden = true;
  byId("schedule").value = "…";
  // Nothing of the rung before stays in sight, however long the new one is waited for.
  byId("lanes").classList.add("empty");
  for (const button of document.querySelectorAll("#controls button")) button.disabled = true;
  showRung();
  await Promise.all([open(schedule), readFile()]);
  if (!played) return;
  markNow();
  showVerdict();
}

function neighbour(distance) {
  const nth = texts.rungs.findIndex((rung) => rung.id === byId("rung").value);
  const next = texts.rungs[nth + distance];
  if (next) inTurn(() => go(next.id));
}

async function changeSettings() {
  for (const name of SETTINGS) plan[name] = Number(byId(name).value);
  plan.unpaid = false;
  showSettings();
  await restart();
}

const MOVES = {
  a: () => inTurn(() => step("A")),
  b: () => inTurn(() => step("B")),
  c: () => inTurn(() => step("C")),
  l: () => inTurn(() => step("L")),
  k: () => inTurn(() => step("K")),
  z: () => inTurn(() => played && step(frameNow().pause ?? "P:")),
  s: () => inTurn(() => step("S")),
  t: () => inTurn(() => step("T")),
  u: () => lookBy(-1),
  r: () => lookBy(1),
  n: () => neighbour(1),
  p: () => neighbour(-1),
};

function lookBy(distance) {
  inTurn(() => {
    stop();
    if (played?.frames[at + distance]) look(at + distance);
  });
}

onLook(look);
document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input:not([type=range], [type=checkbox]), select, textarea");
  if (!shortcuts.checked || typing || event.ctrlKey || event.metaKey || event.altKey) return;
  const key = event.key.toLowerCase();
  // A key that is held down goes through what was played, and takes no steps.
  if (event.repeat && key !== "u" && key !== "r") return;
  MOVES[key]?.();
});
for (const button of document.querySelectorAll("[data-step]")) {
  button.addEventListener("click", () => MOVES[button.dataset.step.toLowerCase()]());
}
byId("lease").addEventListener("click", MOVES.l);
byId("kill").addEventListener("click", MOVES.k);
byId("pause").addEventListener("click", MOVES.z);
byId("again").addEventListener("click", MOVES.s);
byId("undo").addEventListener("click", MOVES.u);
byId("redo").addEventListener("click", MOVES.r);
byId("restart").addEventListener("click", () => inTurn(restart));
byId("previous").addEventListener("click", MOVES.p);
byId("next").addEventListener("click", MOVES.n);
byId("rung").addEventListener("change", (event) => inTurn(() => go(event.target.value)));
for (const button of document.querySelectorAll(".unfold")) {
  button.addEventListener("click", () => {
    const isUnfolded = byId(button.getAttribute("aria-controls")).classList.toggle("unfolded");
    button.setAttribute("aria-expanded", String(isUnfolded));
    markNow();
  });
}
// Who speaks to the page, or has a tremor, takes no step by a letter.
const shortcuts = byId("shortcuts");
shortcuts.checked = storage.get(SHORTCUTS) !== "off";
shortcuts.addEventListener("change", () => storage.set(SHORTCUTS, shortcuts.checked ? null : "off"));
byId("hint").addEventListener("click", () => game.hints.more());
byId("show-me").addEventListener("click", () => {
  const goal = game.currentGoal();
  if (goal) inTurn(() => show(goal, goal.schedule));
});
byId("ladder").addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  inTurn(() => go(link.dataset.rung));
});
for (const name of SETTINGS) byId(name).addEventListener("change", () => inTurn(changeSettings));
byId("settings").addEventListener("submit", (event) => event.preventDefault());

function comeIn(address, wasOwn) {
  plan = planOf(address);
  [played, at] = [null, 0];
  const schedule = address.searchParams.get("schedule") ?? "";
  isOwn = schedule === "" || wasOwn || tabStorage.get(OWN) === address.search.replace(/[?&]lang=[^&]*/, "");
  return arrive(schedule);
}
// The address as it is now: an answer that is under way will write its own.
function comeInTurn() {
  const [address, wasOwn] = [new URL(location.href), history.state?.isOwn === true];
  shownSearch = address.search;
  inTurn(() => comeIn(address, wasOwn));
}
addEventListener("popstate", () => {
  if (location.search !== shownSearch) comeInTurn();
});
// Back from where a browser keeps pages: the session was left.
addEventListener("pageshow", (event) => {
  if (event.persisted) comeInTurn();
});
comeInTurn();
