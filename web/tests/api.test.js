import assert from "node:assert";
import { beforeEach, test } from "node:test";
import { api, retryAfter } from "../api.js";

let asked = [];
const answer = (status, body, headers = {}) => {
  globalThis.fetch = async (path, options) => {
    asked.push([path, options]);
    return new Response(body, { status, headers });
  };
};

beforeEach(() => {
  asked = [];
  globalThis.document = { documentElement: { lang: "zh-CN" } };
});

test("a question has its body as JSON, its token and the language of the page", async () => {
  answer(201, '{"order_id":"7"}');
  const said = await api("POST", "/api/orders", { body: { a: 1 }, token: "t" });
  assert.deepEqual([said.status, said.ok, said.body], [201, true, { order_id: "7" }]);
  const [[path, { method, headers, body }]] = asked;
  assert.deepEqual([path, method, body], ["/api/orders", "POST", '{"a":1}']);
  const expected = { "accept-language": "zh-CN", "content-type": "application/json", authorization: "Bearer t" };
  assert.deepEqual(headers, expected);
});

test("a server below a path of its host is asked there", async () => {
  globalThis.document.documentElement.dataset = { base: "/shop" };
  answer(200, "[]");
  await api("GET", "/api/vouchers");
  assert.equal(asked[0][0], "/shop/api/vouchers");
});

test("an answer without a body has none, and no answer, or one that is no JSON, has the status 0", async () => {
  answer(200, "");
  assert.deepEqual((await api("GET", "/")).body, null);
  assert.deepEqual(asked[0][1].headers, { "accept-language": "zh-CN" });
  answer(200, "<html>");
  assert.equal((await api("GET", "/")).status, 0);
  globalThis.fetch = async () => {
    throw new TypeError("cut");
  };
  const { status, ok, body } = await api("GET", "/");
  assert.deepEqual([status, ok, body], [0, false, null]);
});

test("a refusal asks to wait for 1 to 60 seconds", () => {
  for (const [told, seconds] of [
    ["5", 5],
    ["0", 1],
    ["3600", 60],
    ["Wed, 21 Oct", 1],
    [null, 1],
  ]) {
    const headers = new Headers(told === null ? {} : { "retry-after": told });
    assert.equal(retryAfter({ headers }), seconds, told);
  }
});

test("a browser without AbortSignal.timeout ends a question, too", async () => {
  const { timeout } = AbortSignal;
  AbortSignal.timeout = undefined;
  globalThis.fetch = (_, { signal }) =>
    new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  const { status } = await api("GET", "/", { timeout: 1 });
  AbortSignal.timeout = timeout;
  assert.equal(status, 0);
});
