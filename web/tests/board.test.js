import assert from "node:assert";
import { test } from "node:test";
import { Audits } from "../board_audits.js";
import { amountOf, beaconOf, secondsOf, textOf, wholeNumber } from "../board_fields.js";
import { isPoint, shownSpan, withPoint } from "../board_points.js";
import { promisesOf } from "../board_promises.js";

const NOW = 1_000_000;

// One point a second, from `begin`, of these rates.
const pointsOf = (begin, rates) => rates.reduce((points, rate, second) => withPoint(points, rate, begin + second), []);

test("a field says its value, nothing where it may be empty, and that it is wrong", () => {
  for (const [read, wrong, right] of [
    [
      (text) => wholeNumber(text, 0, 2_147_483_647),
      ["", "-1", "1.5", "2147483648", "99999999999999999999", "x"],
      [
        [" 7 ", 7],
        ["0", 0],
        ["2147483647", 2_147_483_647],
      ],
    ],
    [
      (text) => textOf(text, 1, 3),
      ["", "   ", "abcd"],
      [
        [" ab ", "ab"],
        ["双人餐", "双人餐"],
        ["😀😀😀", "😀😀😀"],
      ],
    ],
    [
      (text) => amountOf(text, 2),
      ["79,9", "-1", "1.234", ".5", "12345678901"],
      [
        ["", undefined],
        ["79.9", 7_990],
        ["1.10", 110],
        ["0", 0],
      ],
    ],
    [(text) => amountOf(text, 0), ["1.5", "12345678901234"], [["1234567890123", 1_234_567_890_123]]],
    [
      beaconOf,
      ["a lottery", "drand:quicknet:0", "@2026-11-12T00:00:00Z", "the lottery of 2026-11-12"],
      [
        [" ", undefined],
        ["drand:quicknet:7", "drand:quicknet:7"],
        [" a lottery@2026-11-12T00:00:00Z", "a lottery@2026-11-12T00:00:00Z"],
      ],
    ],
    [
      secondsOf,
      ["0", "-1", "43200.1", "1,5", "0.001"],
      [
        ["", undefined],
        ["30", 1_800],
        ["0.5", 30],
        ["43200", 2_592_000],
      ],
    ],
  ]) {
    for (const text of wrong) assert.equal(read(text), null, text);
    for (const [text, value] of right) assert.equal(read(text), value, text);
  }
});

test("what was broken is named, with all that was found, and so is a promise that nobody knows", () => {
  const texts = { title: "Board", promise_orphans: "Users", promise_no_oversell: "Stock" };
  assert.deepEqual(promisesOf({ violations: [] }, texts), [
    ["orphans", true, ""],
    ["no_oversell", true, ""],
  ]);
  const violations = ["no_oversell: <b>7</b> orders for 5: too many", "new: x", "no_oversell: again", "bare"];
  assert.deepEqual(promisesOf({ violations }, texts), [
    ["orphans", true, ""],
    ["no_oversell", false, "<b>7</b> orders for 5: too many; again"],
    ["new", false, "x"],
    ["bare", false, ""],
  ]);
});

test("the plot shows the last rush, and not the minutes before it", () => {
  const quiet = Array(60).fill(0);
  assert.deepEqual(shownSpan(pointsOf(NOW, quiet), NOW + 60), [NOW, NOW + 60]);
  const rush = [...quiet, 3, 9, ...quiet];
  // From the second before the first order, with a second of margin, and eight seconds at the least.
  const from = NOW + 58;
  assert.deepEqual(shownSpan(pointsOf(NOW, rush), NOW + 122), [from, from + 8]);
  // It is not over yet: nothing is shown of the time to come but for that.
  const long = [...quiet, ...Array(40).fill(1)];
  assert.deepEqual(shownSpan(pointsOf(NOW, long), NOW + 99.5), [NOW + 57, NOW + 99.5]);
});

test("orders are of one rush until half a minute was silent", () => {
  const silent = (seconds) => Array(seconds).fill(0);
  const [from] = shownSpan(pointsOf(NOW, [1, ...silent(29), 1]), NOW + 40);
  assert.ok(from < NOW);
  const [later] = shownSpan(pointsOf(NOW, [1, ...silent(30), 1]), NOW + 40);
  assert.ok(later > NOW + 20);
});

test("points are kept for five minutes, those of the rush for longer, and none too many", () => {
  const [[oldest]] = pointsOf(NOW, Array(400).fill(0));
  assert.equal(oldest, NOW + 99);
  const rush = pointsOf(NOW, Array(1_500).fill(1));
  assert.deepEqual([rush.length, rush.every(isPoint)], [1_200, true]);
});

test("where nobody looked for a while no line is drawn", () => {
  const before = withPoint([], 1, NOW);
  assert.deepEqual(withPoint(before, 2, NOW + 16), [
    [NOW, 1],
    [NOW + 1, null],
    [NOW + 16, 2],
  ]);
  assert.equal(withPoint(before, null, NOW + 15).length, 2);
  // What an older page, or somebody else, has kept.
  assert.deepEqual([[], null, [1, 2, 3], before[0]].map(isPoint), [false, false, false, true]);
});

const sale = (status, stock, id = "7") => ({ id, status, stock });
const [VERDICT, OTHER] = [{ body: "a verdict" }, { body: "another" }];

test("a sale that sells out is audited once, and its verdict does not outlive it", () => {
  const audits = new Audits();
  assert.deepEqual(audits.see(sale("on_sale", 5), 0), { isStale: false, isDue: false });
  assert.deepEqual(audits.see(sale("sold_out", 0), 1), { isStale: false, isDue: true });
  audits.keep("7", VERDICT, 1);
  assert.deepEqual(audits.see(sale("sold_out", 0), 9_000), { isStale: false, isDue: false });
  assert.equal(audits.of("7"), VERDICT);
  // Its stock comes back, also between two looks; or it is over with some left.
  assert.deepEqual(audits.see(sale("on_sale", 1), 9_000), { isStale: true, isDue: false });
  assert.equal(audits.of("7"), null);
  audits.see(sale("sold_out", 0), 9_000);
  audits.keep("7", OTHER, 9_000);
  assert.deepEqual(audits.see(sale("ended", 1), 20_000), { isStale: true, isDue: true });
});

test("a sale that is over when it is first seen is audited, and one on sale that was audited stays so", () => {
  const audits = new Audits();
  assert.ok(audits.see(sale("ended", 3), 0).isDue);
  // Somebody has asked for it.
  audits.keep("8", VERDICT, 0);
  assert.deepEqual(audits.see(sale("on_sale", 3, "8"), 1), { isStale: false, isDue: false });
  assert.equal(audits.of("8"), VERDICT);
});

test("the verdict of a sale is there when one comes back to it, and is looked at anew", () => {
  const audits = new Audits();
  audits.see(sale("sold_out", 0), 0);
  audits.keep("7", VERDICT, 0);
  audits.comeBack("7");
  assert.equal(audits.of("7"), VERDICT);
  assert.deepEqual(audits.see(sale("sold_out", 0), 5_000), { isStale: false, isDue: true });
  audits.comeBack("8");
  assert.equal(audits.of("8"), null);
});

test("a server that refuses an audit is asked less and less often", () => {
  const audits = new Audits();
  const waits = [];
  let now = 0;
  for (let times = 0; times < 9; times += 1) {
    audits.keep("7", null, now);
    const begun = now;
    while (!audits.see(sale("sold_out", 0), now).isDue) now += 1_000;
    waits.push((now - begun) / 1_000);
  }
  assert.deepEqual(waits, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
  audits.keep("7", VERDICT, now);
  audits.keep("8", null, now);
  assert.equal(audits.see(sale("sold_out", 0, "8"), now + 5_000).isDue, true);
});

test("the last 32 audits are kept", () => {
  const audits = new Audits();
  for (let id = 0; id < 33; id += 1) audits.keep(String(id), VERDICT, 0);
  assert.deepEqual([audits.of("0"), audits.of("1")], [null, VERDICT]);
});
