// The stage. The server runs the show and tells every page of it; this page draws, and asks for the next one.

import { api } from "./api.js";
import { setText } from "./format.js";
import { keepStream } from "./live.js";
import { byId, element, language, storage, texts } from "./page.js";
import { count, Half, onOneScale } from "./stage_half.js";
import { Turn } from "./stage_turn.js";
import { fill, lastOf } from "./words.js";

const FULL_AGAIN_MS = 5_000;

const halves = ["ours", "other"].map((id) => new Half(id));
const [start, slow, failover, against] = ["start", "slow", "failover", "against"].map(byId);
const [kill, design, link] = ["kill", "design", "shop-link"].map(byId);
const turn = new Turn();
let placeOf = null; // what was asked for last: the sale, and how many bought beside the crowd
let beginsAt = null; // by `performance.now()`

function say(text) {
  const message = byId("message");
  message.hidden = !text;
  setText(message, text);
}

function words() {
  const { phase, crowd, halves: of } = turn.show;
  const half = lastOf(of);
  const isKilled = half.killed_at !== null;
  const values = { done: count(half.done), total: count(half.total), killed: isKilled && count(half.killed_at) };
  if (phase === "preparing" && half.rung) return texts.preparing_rung;
  if (phase === "preparing" && crowd === "failover") return texts.preparing_two;
  if (phase === "countdown" && crowd !== "rush")
    return fill(texts[`idle_${crowd}`], { users: count(half.users), stock: count(half.stock) });
  if (phase === "selling" && isKilled) return fill(texts.selling_killed, values);
  const isCut = phase === "auditing" && half.done < half.total;
  return fill(texts[isCut ? "auditing_early" : phase] ?? "", values);
}

function failure({ code, detail }) {
  return fill(texts[`failure_${code}`] ?? texts.failure_defect, { detail: detail.replace(/\.$/, "") });
}

function told(show) {
  turn.told(show);
  const { phase, crowd, halves: of } = show;
  if (phase === "idle") byId("ours-title").textContent = texts.ours;
  byId("stage").dataset.phase = phase;
  byId("stage").dataset.halves = String(Math.max(of.length, 1));
  const isNew = of.length > 1 && byId("other").hidden;
  byId("other").hidden = of.length < 2;
  // On a phone it stands below.
  if (isNew && turn.pressed) byId("other").scrollIntoView({ block: "nearest" });
  for (const [at, half] of of.entries()) halves[at].show(half, crowd, at === of.length - 1 ? words() : "");
  onOneScale(halves.slice(0, Math.max(of.length, 1)));
  announce();
  // Nothing more is to come, also where there is no verdict.
  if (!turn.isUnderWay()) for (const half of halves) half.settle();
  if (of.length === 0) awaitShow();
  beginsAt = show.begins_in_ms === null ? null : performance.now() + show.begins_in_ms;
  countDown();
  say(show.failure ? failure(show.failure) : turn.isForbidden ? texts.forbidden : "");
  if (of[0]?.others > 0) askPlace(of[0]);
  kill.hidden = crowd !== "failover" || !turn.isUnderWay() || phase === "auditing";
  kill.disabled = turn.isForbidden || phase !== "selling" || of[0].killed_at !== null;
  link.hidden = crowd !== "slow" || !turn.isUnderWay() || phase === "auditing";
  if (of.length > 0) setText(link, fill(texts.slow_link, { users: count(of[0].users) }));
  renderButtons();
}

// Where the order of whoever is logged in to the shop stands.
async function askPlace({ voucher_id: voucher, others, verdict }) {
  const asked = [voucher, others, Boolean(verdict)].join();
  const token = JSON.parse(storage.get("session"))?.token;
  if (asked === placeOf || !token) return;
  placeOf = asked;
  const answer = await api("GET", `/api/stage/place?voucher=${voucher}`, { token });
  if (answer.ok && asked === placeOf && answer.body.number > 0) halves[0].tellPlace(answer.body.text);
}

function awaitShow() {
  halves[0].await(texts);
  halves[0].judge(null, fill(texts.idle, { users: count(texts.users), stock: count(texts.stock) }));
}

function renderButtons() {
  const isBusy = turn.isBusy();
  for (const button of [start, slow, failover, against]) button.disabled = isBusy;
  const isOver = turn.isOver();
  start.dataset.again = String(isOver);
  byId("beside").hidden = !turn.isBeside();
  // A button that is disabled loses the focus.
  const { pressed } = turn;
  if (isOver && !isBusy && pressed && document.activeElement === document.body) pressed.focus({ preventScroll: true });
  if (turn.comesNext(start)) againstDesign();
}

function countDown() {
  const left = beginsAt === null ? null : Math.ceil((beginsAt - performance.now()) / 1000);
  const half = halves[Math.max((turn.show?.halves.length ?? 0) - 1, 0)];
  for (const each of halves) each.countTo(each === half && left > 0 ? left : null);
  if (left > 0) setTimeout(countDown, 100);
}

// What a problem says in the page's language; its `detail` is English.
function refusal(problem) {
  if (!problem) return texts.no_answer;
  return [problem.title, language === "en" ? problem.detail : null].filter(Boolean).join(": ");
}

async function begin(button, body) {
  if (!turn.asks(button)) return;
  byId("ours").scrollIntoView({ block: "nearest" });
  say("");
  renderButtons();
  const answer = await api("POST", "/api/stage/shows", { body });
  turn.answered(answer);
  if (turn.isForbidden) say(texts.forbidden);
  else if (!answer.ok) say(refusal(answer.body));
  renderButtons();
}

// Without a stream the count does not run.
function cutOff(text, isFull = turn.isFull) {
  turn.cutOff(isFull);
  beginsAt = null;
  countDown();
  say(text);
  renderButtons();
}

// What is read out: that the sale begins, and what came of it. A count that runs is not.
function announce() {
  const said = halves[turn.show.halves.length - 1]?.said ?? "";
  setText(byId("said"), said || (turn.isUnderWay() ? texts.countdown : ""));
}

function describe() {
  const rung = texts.rungs.find(({ id }) => id === design.value);
  byId("breaks").replaceChildren(texts.breaks, rung.breaks, " ");
  if (!rung.is_beaten) byId("breaks").append(element("a", { href: rung.play }, texts.steps_hidden));
}

function againstDesign() {
  begin(against, { crowd: "rush", against: design.value });
}

start.addEventListener("click", () => begin(start, { crowd: "rush" }));
slow.addEventListener("click", () => begin(slow, { crowd: "slow" }));
failover.addEventListener("click", () => begin(failover, { crowd: "failover" }));
kill.addEventListener("click", () => api("POST", "/api/stage/kill"));
against.addEventListener("click", againstDesign);
design.addEventListener("change", describe);
describe();
awaitShow();
keepStream({
  url: "/api/stage/events",
  againAfterMs: FULL_AGAIN_MS,
  // Whoever comes back is told all of it.
  events: { show: told, alive: () => {} },
  opened() {
    turn.opened();
    say("");
    renderButtons();
  },
  silent: () => cutOff(texts.gone),
  failed: (isRefused) => cutOff(isRefused ? texts.full : texts.gone, isRefused),
  closed: () => cutOff(""),
});
