import assert from "node:assert";
import { test } from "node:test";
import { Audits } from "../board_audits.js";
import { amountOf, secondsOf, textOf, wholeNumber } from "../board_fields.js";
import { column, isPoint, shownSpan, withoutStock, withPoint } from "../board_points.js";
import { promisesOf } from "../board_promises.js";

const NOW = 1_000_000;

// One point a second, from `begin`, of these figures.
const pointsOf = (begin, figures) =>
  figures.reduce((points, figure, second) => withPoint(points, figure, begin + second), []);

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
  const kept = promisesOf({ violations: [] });
  assert.equal(kept.filter(([, isKept]) => isKept).length, 5);
  const violations = ["no_oversell: <b>7</b> orders for 5: too many", "new: x", "no_oversell: again", "bare"];
  const broken = promisesOf({ violations }).filter(([, isKept]) => !isKept);
  assert.deepEqual(broken, [
    ["no_oversell", false, "<b>7</b> orders for 5: too many; again"],
    ["new", false, "x"],
    ["bare", false, ""],
  ]);
});

test("the plots show the last rush, and not the minutes before it", () => {
  const quiet = Array(60).fill({ orders: 0, refusals: 0, stock: 9 });
  assert.deepEqual(shownSpan(pointsOf(NOW, quiet), NOW + 60), [NOW, NOW + 60]);
  const rush = [...quiet, { orders: 3, stock: 6 }, { refusals: 9, stock: 6 }, ...quiet];
  // From the second before the first purchase, with a second of margin, and eight seconds at the least.
  const from = NOW + 58;
  assert.deepEqual(shownSpan(pointsOf(NOW, rush), NOW + 122), [from, from + 8]);
  // It is not over yet: nothing is shown of the time to come but for that.
  const long = [...quiet, ...Array(40).fill({ orders: 1 })];
  assert.deepEqual(shownSpan(pointsOf(NOW, long), NOW + 99.5), [NOW + 57, NOW + 99.5]);
});

test("purchases are of one rush until half a minute was silent, and so is what only the stock tells", () => {
  const bought = { orders: 1, stock: 5 };
  const silent = (seconds) => Array(seconds).fill({ orders: 0, stock: 5 });
  const [from] = shownSpan(pointsOf(NOW, [bought, ...silent(29), bought]), NOW + 40);
  assert.ok(from < NOW);
  const [later] = shownSpan(pointsOf(NOW, [bought, ...silent(30), bought]), NOW + 40);
  assert.ok(later > NOW + 20);
  const sold = pointsOf(NOW, [...silent(60), { orders: 0, stock: 4 }]);
  assert.deepEqual(shownSpan(sold, NOW + 60)[0], NOW + 58);
  // Another sale has another stock.
  assert.deepEqual(shownSpan(withoutStock(sold), NOW + 60), [NOW, NOW + 60]);
});

test("points are kept for five minutes, those of the rush for longer, and none too many", () => {
  const old = pointsOf(NOW, Array(400).fill({ orders: 0 }));
  assert.equal(column(old, "time")[0], NOW + 99);
  const rush = pointsOf(NOW, Array(1_500).fill({ orders: 1 }));
  assert.deepEqual([rush.length, rush.every(isPoint)], [1_200, true]);
});

test("where nobody looked for a while no line is drawn", () => {
  const [before, gap, after] = withPoint(withPoint([], { p50: 1 }, NOW), { p50: 2 }, NOW + 16);
  assert.deepEqual(column([before, gap, after], "p50"), [1, null, 2]);
  assert.deepEqual(column([before, gap, after], "time"), [NOW, NOW + 1, NOW + 16]);
  assert.equal(withPoint([before], {}, NOW + 15).length, 2);
  // What an older page, or somebody else, has kept.
  assert.deepEqual([[], null, [1, 2], before].map(isPoint), [false, false, false, true]);
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
