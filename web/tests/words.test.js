import assert from "node:assert";
import { test } from "node:test";
import { clockOf, fill, isolated, lastOf, sentences, shortClockOf } from "../words.js";

test("a text has its values, and what has none stays as it is", () => {
  assert.equal(fill("{a} of {b}, {c}", { a: 0, b: "$&" }), "0 of $&, {c}");
});

test("a sentence follows another one with a stop between them, in either language", () => {
  for (const [lang, text, next, both] of [
    ["en", "Not found", "Try again.", "Not found. Try again."],
    ["en", "Not found!", "Try again.", "Not found! Try again."],
    ["en", "Order 17", "It is yours.", "Order 17. It is yours."],
    ["zh-CN", "暂不可用", "请重试。", "暂不可用。请重试。"],
    ["zh-CN", "暂不可用。", "请重试。", "暂不可用。请重试。"],
  ]) {
    globalThis.document = { documentElement: { lang } };
    assert.equal(sentences(text, next), both);
  }
});

test("a clock counts whole seconds that have begun, and has days where there are any", () => {
  for (const [ms, clock, short] of [
    [-5, "00:00:00", "00:00"],
    [1, "00:00:01", "00:01"],
    [754_000, "00:12:34", "12:34"],
    [3_600_000, "01:00:00", "01:00:00"],
    [86_399_001, "1 d 00:00:00", "1 d 00:00:00"],
    [2 * 86_400_000 + 3_661_000, "2 d 01:01:01", "2 d 01:01:01"],
  ]) {
    assert.equal(clockOf(ms, "{days} d {rest}"), clock);
    assert.equal(shortClockOf(ms, "{days} d {rest}"), short);
  }
});

test("a text of a direction of its own is isolated, and an empty list has no last", () => {
  assert.equal(isolated("\u202egnp"), "\u2068\u202egnp\u2069");
  assert.deepEqual([lastOf([1, 2]), lastOf([])], [2, undefined]);
});
