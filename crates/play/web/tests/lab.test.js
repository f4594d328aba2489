import assert from "node:assert";
import { beforeEach, test } from "node:test";
import { Hints } from "../lab_hints.js";
import { Replay } from "../lab_replay.js";
import { goalOf, isUnpaid, parOf, stepsOf } from "../lab_schedule.js";

let timers = [];
const MINUTE = 60_000;

beforeEach(() => {
  timers = [];
  globalThis.setInterval = (run, ms) => globalThis.setTimeout(run, ms);
  globalThis.clearInterval = (timer) => globalThis.clearTimeout(timer);
  globalThis.setTimeout = (run, ms) => {
    const timer = { run, ms };
    timers.push(timer);
    return timer;
  };
  globalThis.clearTimeout = (timer) => (timers = timers.filter((one) => one !== timer));
});

// Hints of a game that has something to be found, and what was to be seen of them.
function game() {
  const shown = [];
  const hints = new Hints((count) => shown.push(count));
  hints.startOver(true);
  hints.begin();
  return [hints, shown];
}

test("a step of a schedule is a letter, or a letter and whose process it is", () => {
  assert.deepEqual(stepsOf("ALBK:1P:x"), ["A", "L", "B", "K:1", "P:x"]);
  assert.deepEqual([stepsOf(""), stepsOf("KP")], [[], ["K", "P"]]);
});

test("settings begin with an unpaid order where they say so, or where one is bought again", () => {
  for (const [setting, expected] of [
    [{ unpaid: true }, true],
    [{ unpaid: false, from: "unpaid" }, false],
    [{ from: "unpaid" }, true],
    [{ from: "buys_again" }, true],
    [{ from: "new" }, false],
  ]) {
    assert.equal(isUnpaid(setting), expected);
  }
});

test("the goal is the lesson of these settings, one that breaks before one that holds", () => {
  const plan = { users: 2, processes: 1, stock: 1, unpaid: false };
  const [holds, breaks] = [
    { ...plan, breaks: null },
    { ...plan, breaks: "no_oversell" },
  ];
  const other = { ...plan, users: 1, breaks: "one_per_user" };
  const third = { ...plan, users: 3, breaks: null };
  for (const [lessons, wanted, goal] of [
    [[holds, other, breaks], plan, breaks],
    [[holds, other], plan, other],
    [[third, holds], plan, holds],
    [[third], plan, third],
    // What holds begins with nothing sold.
    [[third], { ...plan, unpaid: true }, null],
    [[], plan, null],
  ]) {
    assert.equal(goalOf(lessons, wanted), goal);
  }
});

test("par is the fewest steps that break the promise with these settings, else with any", () => {
  const plan = { users: 1, processes: 2, stock: 2, unpaid: false };
  const one = (schedule, ...broken) => ({ schedule, broken });
  const same = { ...plan, unpaid: undefined, from: "new", shortest: [one("ABABAB", "x"), one("AAAK:1BB", "x", "y")] };
  const other = { ...same, users: 2, shortest: [one("AB", "x"), one("ABA", "z")] };
  assert.equal(parOf([other, same], [], "x", plan), 6);
  assert.equal(parOf([other, same], [], "z", plan), 3);
  assert.equal(parOf([other, same], [], "none", plan), null);
  // What is shown counts, too.
  assert.equal(parOf([same], [{ ...plan, breaks: "x", schedule: "ABAB" }], "x", plan), 4);
});

test("whoever does not find it is nudged once after eight steps, also of several games", () => {
  const [hints, shown] = game();
  for (let step = 1; step <= 4; step += 1) hints.stepTaken();
  hints.begin();
  for (let step = 5; step <= 7; step += 1) hints.stepTaken();
  assert.deepEqual(shown, [0]);
  hints.stepTaken();
  hints.stepTaken();
  assert.deepEqual(shown, [0, 1]);
  timers[0].run();
  assert.deepEqual(shown, [0, 1]);
});

test("whoever does not find it is nudged after a minute, which a game that is begun anew does not begin anew", () => {
  const [hints, shown] = game();
  hints.begin();
  assert.deepEqual(
    timers.map(({ ms }) => ms),
    [MINUTE],
  );
  timers.pop().run();
  assert.deepEqual(shown, [0, 1]);
  hints.begin();
  assert.deepEqual([timers.length, shown], [0, [0, 1]]);
  // Whoever has won needs it no longer, and begins another game.
  hints.startOver(true);
  hints.begin();
  assert.deepEqual([timers.length, shown], [1, [0, 1, 0]]);
  hints.startOver(true);
  assert.equal(timers.length, 0);
});

test("three hints are told at a button, and none where nothing is to be found", () => {
  const [hints, shown] = game();
  const next = [];
  for (let press = 0; press < 4; press += 1) {
    next.push(hints.next());
    hints.more();
  }
  assert.deepEqual([shown, next, hints.isAll()], [[0, 1, 2, 3], [1, 2, 3, 3], true]);
  hints.startOver(false);
  hints.begin();
  hints.more();
  for (let step = 0; step < 9; step += 1) hints.stepTaken();
  assert.deepEqual([shown.slice(4), timers.length], [[0], 0]);
});

// A schedule of so many steps, of which the last is looked at, and what was shown of it.
function replayOf(count, isStill = false) {
  const seen = [];
  const replay = new Replay(
    (step) => {
      seen.push(step);
      replay.place(step, count);
    },
    (isPlaying) => {
      if (seen.length > 0) seen.push(isPlaying ? "plays" : "stops");
    },
    () => isStill,
  );
  replay.place(count, count);
  return [replay, seen];
}

test("steps are played one after the other, paused, and end by themselves", () => {
  const [replay, seen] = replayOf(2);
  replay.through();
  assert.deepEqual(
    timers.map(({ ms }) => ms),
    [900],
  );
  timers[0].run();
  replay.toggle();
  assert.equal(timers.length, 0);
  replay.toggle();
  timers[0].run();
  assert.deepEqual([seen, timers.length], [[0, "plays", 1, "stops", "plays", 2, "stops"], 0]);
  // From the end it begins anew.
  replay.toggle();
  assert.deepEqual(seen.slice(7), [0, "plays"]);
});

test("without motion the end is there at once", () => {
  const [replay, seen] = replayOf(9, true);
  replay.through();
  assert.deepEqual([seen, timers.length], [[9, "stops"], 0]);
});
