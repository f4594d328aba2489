import assert from "node:assert";
import { beforeEach, test } from "node:test";
import { fill } from "../../../../web/words.js";
import { Dots } from "../stage_dots.js";
import { outcomeOf, rates } from "../stage_sentence.js";
import { Turn } from "../stage_turn.js";

let isCalm, frames, painted;

beforeEach(() => {
  [isCalm, frames, painted] = [false, [], []];
  globalThis.devicePixelRatio = 1;
  globalThis.ResizeObserver = class {
    observe() {}
  };
  globalThis.matchMedia = () => ({ matches: isCalm, addEventListener() {} });
  globalThis.getComputedStyle = () => ({ getPropertyValue: (name) => name });
  globalThis.requestAnimationFrame = (run) => frames.push(run);
  globalThis.cancelAnimationFrame = () => (frames = []);
});

// A field of 100 dots, 10 in a row; what is drawn on it is remembered by its colour.
function field() {
  const context = {
    beginPath: () => {},
    clearRect: () => (painted = []),
    closePath: () => {},
    fill: () => {},
    lineTo: () => {},
    rect: (x, y) => painted.push([context.fillStyle, (y / 5) * 10 + x / 5]),
  };
  const dots = new Dots({ clientWidth: 50, clientHeight: 50, getContext: () => context });
  dots.begin(100);
  return dots;
}

const drawn = (kind) => painted.filter(([colour]) => colour === `--dot-${kind}`).map(([, buyer]) => buyer);

test("dots come in the frames after the event that told of them", () => {
  const dots = field();
  assert.equal(drawn("waiting").length, 100);
  dots.set([3, 17, 42, 99, 5], "bought");
  dots.set([4], "refused");
  assert.deepEqual([drawn("bought"), frames.length], [[], 1]);
  const seen = [];
  while (frames.length > 0) {
    frames.shift()();
    seen.push(drawn("bought").length + drawn("refused").length);
  }
  assert.deepEqual([seen, drawn("bought"), drawn("refused")], [[2, 3, 4, 5, 6], [3, 17, 42, 99, 5], [4]]);
});

test("who wants no motion sees the dots when all is over", () => {
  isCalm = true;
  const dots = field();
  dots.set([3, 17], "bought");
  assert.deepEqual([drawn("bought"), drawn("waiting").length, frames.length], [[], 100, 0]);
  // Another size of the field shows no more than before.
  dots.layOut();
  assert.deepEqual(drawn("bought"), []);
  dots.settle();
  assert.deepEqual([drawn("bought"), drawn("waiting").length], [[3, 17], 98]);
});

test("people who bought beside the crowd have places of their own behind it", () => {
  const dots = field();
  dots.set([7], "wrong");
  dots.addStars(2);
  assert.deepEqual(
    [dots.kinds.length, [...dots.kinds].filter((kind) => kind === 4).length, dots.kinds[7]],
    [102, 2, 3],
  );
  dots.addStars(1);
  assert.equal(dots.kinds.length, 101);
});

test("a rate is what came within the second that ends there", () => {
  const points = Array.from({ length: 12 }, (_, at) => [at, 1]);
  assert.deepEqual(rates(points, 1), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10]);
  assert.equal(rates(points, 0)[11], 65);
  assert.deepEqual(rates([], 0), []);
});

test("the sentence counts buyers, and says what else came of it", () => {
  const texts = {
    sentence: "{buyers} hold {sold}, {oversold} never were, {nothing} left, {seconds} s.",
    killed: "Killed at {killed}, {count} silent.",
    nobody_killed: "Nobody was killed.",
    also_lost: "{count} lost.",
    also_undersold: "{count} unsold.",
    reasons: "Because {reasons}.",
    hidden_flaw: "It breaks when {breaks}.",
    rungs: [{ id: "r01", breaks: "two read" }],
  };
  const verdict = { sold: 40, oversold: 0, duplicates: 0, refused: 60, elapsed_ms: 1_500, silent: 2, holds: true };
  const quiet = { undersold: 0, lost: 0, untold: 0, unexpected: 0, not_made: 0, reasons: [] };
  const half = { users: 400, others: 0, rung: null, killed_at: null, verdict: { ...verdict, ...quiet } };
  const of = (its, more = {}) => ({ ...half, ...its, verdict: { ...half.verdict, ...more } });
  for (const [its, crowd, said] of [
    [half, "rush", "40 hold 40, 0 never were, 360 left, 1.5 s."],
    [half, "failover", "40 hold 40, 0 never were, 360 left, 1.5 s. Nobody was killed."],
    [of({ killed_at: 8 }), "failover", "40 hold 40, 0 never were, 360 left, 1.5 s. Killed at 8, 2 silent."],
    // Of a slow crowd each tries once, and people buy among them.
    [of({ users: 100, others: 1 }), "slow", "40 hold 40, 0 never were, 60 left, 1.5 s."],
    [of({ users: 30, others: 1 }), "rush", "40 hold 40, 0 never were, 0 left, 1.5 s."],
    [of({ rung: "r01" }), "rush", "40 hold 40, 0 never were, 360 left, 1.5 s. It breaks when two read."],
    [
      of(
        { rung: "r01" },
        { holds: false, sold: 45, oversold: 5, duplicates: 3, undersold: 1, lost: 2, reasons: ["a.", "b"] },
      ),
      "rush",
      "42 hold 45, 5 never were, 358 left, 1.5 s. 1 unsold. 2 lost. Because a; b.",
    ],
  ]) {
    assert.equal(outcomeOf(its, crowd, { texts, say: fill, count: String, seconds: String }), said);
  }
});

const [START, SLOW, AGAINST] = ["start", "slow", "against"];
const showOf = (number, phase, halves = 1) => {
  const verdict = phase === "ended" ? { holds: true } : null;
  return { number, phase, crowd: "rush", halves: Array(halves).fill({ verdict }) };
};

// A page that has just come to the stage, where this show was played.
function come(show) {
  const turn = new Turn();
  turn.opened();
  if (show) turn.told(show);
  return turn;
}

test("a show may be begun once the stream has told how things stand, or where there is no place to watch", () => {
  const turn = new Turn();
  assert.ok(turn.isBusy());
  turn.opened();
  assert.ok(turn.isBusy());
  turn.told(showOf(0, "idle", 0));
  assert.ok(!turn.isBusy() && !turn.isOver());
  turn.cutOff(false);
  assert.ok(turn.isBusy());
  turn.cutOff(true);
  assert.ok(!turn.isBusy());
  for (const phase of ["preparing", "countdown", "selling", "auditing"]) {
    turn.told(showOf(1, phase));
    assert.ok(turn.isBusy() && !turn.asks(START), phase);
  }
});

test("the wrong design comes by itself, once, also when the stream is later than the answer", () => {
  // The second time the stream's first event tells of the show that is over.
  for (const before of [showOf(0, "idle", 0), showOf(3, "ended", 2)]) {
    const turn = come(before);
    const number = before.number + 1;
    assert.ok(turn.asks(START) && !turn.asks(START));
    turn.answered({ ok: true, status: 202, body: { number } });
    assert.ok(turn.isBusy() && !turn.comesNext(START));
    turn.told(before);
    assert.ok(turn.isBusy() && !turn.comesNext(START));
    turn.told(showOf(number, "selling"));
    assert.ok(!turn.comesNext(START));
    turn.told(showOf(number, "ended"));
    assert.ok(turn.comesNext(START));
    // It is asked for by that.
    assert.ok(turn.asks(AGAINST));
    turn.answered({ ok: true, status: 202, body: { number: number + 1 } });
    turn.told(showOf(number + 1, "selling", 2));
    turn.told(showOf(number + 1, "ended", 2));
    assert.ok(!turn.comesNext(START) && !turn.isBusy());
  }
});

test("the stream may tell of a show before the answer does", () => {
  const turn = come(showOf(0, "idle", 0));
  turn.asks(START);
  turn.told(showOf(1, "countdown"));
  turn.answered({ ok: true, status: 202, body: { number: 1 } });
  turn.told(showOf(1, "ended"));
  assert.ok(turn.comesNext(START));
});

test("nothing comes by itself after another show, for another page, or after a show that failed", () => {
  const slow = come(showOf(0, "idle", 0));
  slow.asks(SLOW);
  slow.answered({ ok: true, status: 202, body: { number: 1 } });
  slow.told({ ...showOf(1, "ended"), crowd: "slow" });
  const failed = come(showOf(0, "idle", 0));
  failed.asks(START);
  failed.answered({ ok: true, status: 202, body: { number: 1 } });
  failed.told(showOf(1, "failed"));
  // Another page was faster, and began one against a wrong design.
  const late = come(showOf(0, "idle", 0));
  late.asks(START);
  late.answered({ ok: true, status: 202, body: { number: 1 } });
  late.told(showOf(1, "ended", 2));
  for (const turn of [slow, failed, late, come(showOf(1, "ended"))]) {
    assert.ok(turn.isOver() && !turn.comesNext(START) && turn.pressed === null);
  }
});

test("a page that is refused a show may not have been the one to begin it", () => {
  const turn = come(showOf(1, "ended"));
  turn.asks(START);
  turn.answered({ ok: false, status: 503, body: null });
  assert.ok(!turn.isBusy() && turn.pressed === null && !turn.isForbidden);
  turn.asks(START);
  turn.answered({ ok: false, status: 403, body: {} });
  assert.ok(turn.isForbidden && turn.isBusy());
});

test("a page that comes back to the stream is told all of it", () => {
  const turn = come(showOf(0, "idle", 0));
  turn.asks(START);
  turn.answered({ ok: true, status: 202, body: { number: 1 } });
  turn.cutOff(false);
  // The server is another one, whose shows begin anew.
  turn.opened();
  turn.told(showOf(0, "idle", 0));
  assert.ok(!turn.isBusy());
});
