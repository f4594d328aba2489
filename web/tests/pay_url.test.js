import assert from "node:assert";
import { test } from "node:test";
import { isOfTheWeb, qrCodeOf } from "../pay_url.js";

test("a browser goes to the web by itself, and not into an app", () => {
  for (const [url, isWeb] of [
    ["https://pay.example/7", true],
    ["HTTP://pay.example", true],
    ["/shop/sandbox/payments/1.2.1", true],
    ["weixin://wxpay/bizpayurl?pr=aBc9", false],
    ["alipays://platformapi/startapp?url=https://pay.example", false],
    ["httpsx://pay.example", false],
  ]) {
    assert.equal(isOfTheWeb(url), isWeb, url);
  }
});

test("a code has the three squares by which a reader finds it, and what it says decides the rest", async () => {
  const code = await qrCodeOf("weixin://wxpay/bizpayurl?pr=aBc9");
  const square = (left, top) => [0, 1, 2, 3, 4, 5, 6].map((at) => code.get(left + at, top + 3));
  for (const [left, top] of [
    [0, 0],
    [code.size - 7, 0],
    [0, code.size - 7],
  ]) {
    assert.deepEqual(square(left, top), [true, false, true, true, true, false, true]);
  }
  const other = await qrCodeOf("weixin://wxpay/bizpayurl?pr=aBc8");
  assert.equal(other.size, code.size);
  assert.notEqual(other.toString(), code.toString());
});

test("an address that is too long for a phone's camera has no code", async () => {
  const long = (length) => "a".repeat(length);
  assert.ok((await qrCodeOf(long(1_200))).size <= 117);
  assert.equal(await qrCodeOf(long(4_000)), null);
});
