import assert from "node:assert";
import { test } from "node:test";
import { mean, ordered, quantile, read, refused, since } from "../metrics.js";

const text = (purchases, uptime) => `# HELP seckill_purchases_total Attempts.
# TYPE seckill_purchases_total counter
seckill_purchases_total{outcome="ordered"} ${purchases}
seckill_purchases_total{outcome="sold_out"} ${2 * purchases}
seckill_purchases_in_flight_peak 7
seckill_purchases_limit 3000
seckill_order_queue_depth_peak 4
seckill_uptime_seconds ${uptime}
seckill_server_info{strategy="group-commit",instance="a\\"b"} 1
seckill_order_batch_size_bucket{le="+Inf"} ${purchases}
seckill_order_batch_size_sum ${3 * purchases}
seckill_order_batch_size_count ${purchases}
seckill_http_request_seconds_bucket{route="/api/vouchers/{id}/orders",status="201",le="+Inf"} ${purchases}
seckill_http_request_seconds_bucket{route="/api/vouchers/{id}/orders",status="201",le="0.1"} ${purchases}
seckill_http_request_seconds_bucket{route="/api/vouchers/{id}/orders",status="409",le="0.1"} 0
seckill_http_request_seconds_bucket{route="/api/vouchers/{id}/orders",status="409",le="+Inf"} ${purchases}
seckill_http_request_seconds_bucket{route="/api/me",status="200",le="0.1"} 1000
`;

test("the text of the metrics is read, and several series make one histogram", () => {
  const { latency, batches, outcomes, ...rest } = read(text(10, 5));
  assert.deepEqual(outcomes, { ordered: 10, sold_out: 20 });
  assert.deepEqual(latency.buckets, [
    [0.1, 10],
    [Infinity, 20],
  ]);
  assert.deepEqual([batches.sum, batches.count], [30, 10]);
  const { process, uptime, inFlightPeak, limit, queuePeak, strategy } = rest;
  const seen = [process, uptime, inFlightPeak, limit, queuePeak, strategy];
  assert.deepEqual(seen, ['a\\"b', 5, 7, 3_000, 4, "group-commit"]);
  assert.deepEqual(read("").outcomes, {});
});

test("two readings say what happened between them", () => {
  const now = since(read(text(10, 5)), read(text(25, 6)));
  assert.deepEqual([ordered(now.outcomes), refused(now.outcomes)], [15, 30]);
  assert.deepEqual(now.latency.buckets, [
    [0.1, 15],
    [Infinity, 30],
  ]);
  assert.equal(mean(now.batches), 3);
  // An outcome that is new.
  assert.deepEqual(since(read(""), read(text(1, 1))).outcomes, { ordered: 1, sold_out: 2 });
  assert.deepEqual([ordered({}), mean(read("").batches)], [0, null]);
});

test("a quantile is interpolated within its bucket", () => {
  const buckets = [
    [1, 10],
    [2, 10],
    [4, 20],
    [Infinity, 40],
  ];
  for (const [share, value] of [
    [0.125, 0.5],
    [0.25, 1],
    [0.375, 3],
    [0.75, Infinity],
  ]) {
    assert.equal(quantile({ buckets }, share), value);
  }
  assert.equal(quantile({ buckets: [] }, 0.5), null);
  assert.equal(quantile({ buckets: [[1, 0]] }, 0.5), null);
});
