import assert from "node:assert";
import { test } from "node:test";
import { rates, read } from "../metrics.js";

const text = (purchases, uptime) => `# HELP seckill_purchases_total Attempts.
# TYPE seckill_purchases_total counter
seckill_purchases_total{outcome="ordered"} ${purchases}
seckill_purchases_total{outcome="sold_out"} ${2 * purchases}
seckill_purchases_in_flight 7
seckill_uptime_seconds ${uptime}
seckill_server_info{strategy="group-commit",instance="a\\"b"} 1
`;

test("the text of the metrics is read", () => {
  const reading = { outcomes: { ordered: 10, sold_out: 20 }, process: 'a\\"b', uptime: 5 };
  assert.deepEqual(read(text(10, 5)), reading);
  assert.deepEqual(read(""), { outcomes: {}, process: null, uptime: 0 });
});

test("two readings say what happened a second between them, by the server's clock", () => {
  assert.deepEqual(rates(read(text(10, 5)), read(text(25, 7))), { ordered: 7.5, sold_out: 15 });
  // An outcome that is new.
  assert.deepEqual(rates(read(""), read(text(1, 1))), { ordered: 1, sold_out: 2 });
});
