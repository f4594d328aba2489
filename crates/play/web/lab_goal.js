// The game: what is to be broken, hints for whoever does not find it, and what one has broken.

import { withCode } from "./lab_file.js";
import { Hints } from "./lab_hints.js";
import { stepsOf } from "./lab_schedule.js";
import { byId, element, language, storage, texts } from "./page.js";
import { fill, lastOf } from "./words.js";

const BROKEN = "lab-broken";

let goal = null;
// The rung that it is of.
let played = null;
// The rung that is played.
let shown = null;

// By rung, and by promise there, the fewest steps that the reader needed.
let broken = read();

function read() {
  try {
    const kept = JSON.parse(storage.get(BROKEN) ?? "{}");
    return kept && typeof kept === "object" && !Array.isArray(kept) ? kept : {};
  } catch {
    return {};
  }
}

// Another tab has broken something.
addEventListener("storage", (event) => {
  if (event.key !== BROKEN) return;
  broken = read();
  showLadder(shown);
});

export function showLadder(rung) {
  shown = rung;
  for (const link of document.querySelectorAll("#ladder a")) {
    const isHere = link.dataset.rung === rung;
    if (isHere) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
    link.querySelector(".tick")?.remove();
    if (Object.keys(broken[link.dataset.rung] ?? {}).length) {
      link.append(" ", element("span", { class: "tick", role: "img", "aria-label": texts.broken_by_you }, "✓"));
    }
    if (isHere) bringIntoView(link);
  }
  const count = texts.rungs.filter(({ id }) => Object.keys(broken[id] ?? {}).length).length;
  const all = texts.rungs.filter(({ lessons }) => lessons.some((one) => one.breaks)).length;
  byId("score").textContent = fill(texts.score, { count, all });
}

// Within the ladder alone: the page stays where it is.
function bringIntoView(link) {
  const box = byId("ladder");
  const [at, frame] = [link.getBoundingClientRect(), box.getBoundingClientRect()];
  if (at.top < frame.top || at.bottom > frame.bottom) box.scrollTop += at.top - frame.top - box.clientHeight / 2;
  if (at.left < frame.left || at.right > frame.right) box.scrollLeft += at.left - frame.left - box.clientWidth / 2;
}

// `lesson` is what is to be broken from now on; `chooses` is called with another one.
export function showGoal(rung, lesson, chooses, unpaid = false) {
  [goal, played] = [lesson, rung];
  const promise = goal?.breaks;
  const text = promise ? fill(texts.goal, { promise: texts[promise] ?? promise }) : noGoal(unpaid);
  const said = promise ? [text, " ", element("code", {}, promise), ` · ${goal.story}`] : [text];
  byId("goal").replaceChildren(...said);
  byId("show-me").hidden = !goal || (!promise && isWrong(rung));
  byId("hint").hidden = !promise;
  const others = rung.lessons.filter((one) => one.scenario !== goal?.scenario);
  byId("goals").replaceChildren(
    ...(others.length ? [element("span", { class: "soft" }, texts.goal_others)] : []),
    ...others.map((one) => other(one, chooses)),
  );
  stopHints();
}

// Whether anything breaks the rung, here or elsewhere.
const isWrong = (rung) => rung.elsewhere !== null || rung.lessons.some((one) => one.breaks);

function noGoal(unpaid) {
  if (unpaid) return texts.unpaid;
  if (played.elsewhere) return fill(texts.goal_elsewhere, { story: played.elsewhere });
  return isWrong(played) ? fill(texts.goal_withstood, { story: goal.story }) : texts.goal_holds;
}

function other(lesson, chooses) {
  const holds = lesson.breaks === null;
  const outcome = holds ? texts.lesson_holds : fill(texts.lesson_breaks, { promise: lesson.breaks });
  const button = element(
    "button",
    { type: "button", "data-lesson": lesson.scenario },
    `${lesson.story} `,
    element("span", { class: holds ? "good" : "bad" }, outcome),
  );
  button.addEventListener("click", () => chooses(lesson));
  return button;
}

export const currentGoal = () => goal;

export const hints = new Hints((count) => {
  byId("nudge").hidden = count === 0;
  if (count > 0) byId("nudge").replaceChildren(...hintOf(count));
  byId("hint").disabled = hints.isAll();
  byId("hint").textContent = fill(texts.hint, { count: hints.next() });
});

export const stopHints = () => hints.startOver(Boolean(goal?.breaks));

// First where to look, then how it begins, then the schedule.
function hintOf(count) {
  const all = stepsOf(goal.schedule);
  const half = all.slice(0, Math.ceil(all.length / 2));
  const where = goal.nudge ?? `${texts.breaks_when}: ${played.breaks_when}`;
  return [
    withCode(where),
    [fill(texts.hint_half, { schedule: half.join(" ") })],
    [fill(texts.hint_schedule, { schedule: all.join(" ") })],
  ][count - 1];
}

// What the reader has broken, in so many steps: kept for the next visit.
export function won(rung, promises, count) {
  stopHints();
  // Another tab may have kept more meanwhile.
  broken = read();
  const known = broken[rung] ?? {};
  for (const promise of promises) known[promise] = Math.min(known[promise] ?? Number.POSITIVE_INFINITY, count);
  broken[rung] = known;
  storage.set(BROKEN, JSON.stringify(broken));
  showLadder(rung);
}

const bestOf = (rung, promise) => broken[rung]?.[promise] ?? null;

const sentence = (text) => {
  const isEnglish = language === "en";
  return `${isEnglish ? text[0].toUpperCase() : text[0]}${text.slice(1)}${isEnglish ? "." : "。"}`;
};

// What came of it. `own`: the reader's own steps led there, and `count` of them broke `promise`; `next` goes to the next
// rung.
export function showVerdict(frame, { own, promise, count, par, next }) {
  const verdict = byId("verdict");
  const isBroken = frame.broken.length > 0;
  verdict.hidden = !isBroken && !frame.is_over;
  const todo = goal?.breaks && !isBroken ? texts.todo : texts.todo_holds;
  byId("todo").textContent = frame.is_over ? texts.todo_over : todo;
  // To break it is what the game is about, and to see it broken is not. What breaks otherwise is not well.
  const kept = isWrong(played) ? "" : "good";
  verdict.className = `verdict ${isBroken ? (own ? "good" : "bad") : kept}`;
  if (!isBroken) return verdict.replaceChildren(isWrong(played) && goal?.breaks ? texts.kept_so : texts.kept);
  const course = `/lab/course/${frame.rung}?lang=${language}`;
  const onward = element("button", { type: "button", id: "next-rung" }, texts.next_rung);
  onward.addEventListener("click", next);
  onward.hidden = !own || played === lastOf(texts.rungs);
  verdict.replaceChildren(
    score(frame.rung, own, promise, count, par),
    element("p", {}, texts[`means_${promise}`] ?? ""),
    element(
      "p",
      { class: "why" },
      `${texts.breaks_when}${language === "en" ? ": " : "："}`,
      ...withCode(played.breaks_when),
    ),
    ...frame.broken.map((one) =>
      element(
        "p",
        {},
        element("strong", {}, fill(texts.broken, { promise: one.invariant })),
        language === "en" ? ` (${texts[one.invariant]}). ` : `（${texts[one.invariant]}）。`,
        sentence(one.witness),
        " ",
        one.claimed ? texts.was_claimed : own ? "" : texts.not_claimed,
      ),
    ),
    onward,
    " ",
    element("a", { href: course }, texts.read_more),
  );
}

function score(rung, own, promise, count, par) {
  if (!own) return element("p", {}, texts.shown);
  const best = bestOf(rung, promise);
  const isGoal = !goal?.breaks || goal.breaks === promise;
  const parts = [element("strong", {}, fill(isGoal ? texts.won : texts.won_another, { steps: count }))];
  if (par !== null) parts.push(fill(count < par ? texts.par_beaten : texts.par, { par }));
  if (best !== null && best < count) parts.push(fill(texts.best, { best }));
  return element("p", { class: "won" }, "✓ ", ...parts.flatMap((part) => [part, " "]));
}
