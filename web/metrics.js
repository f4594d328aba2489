// Reads the text of /metrics, and computes from two readings what happened between them.

const BUYING = "/api/vouchers/{id}/orders";

// What the board needs of the text:
// {process, uptime, outcomes: {code: count}, latency, batches, inFlightPeak, limit, queuePeak, strategy}, where `process`
// tells one server process from another, and a histogram is
// {buckets: [[upper bound, count up to it]…], sum, count}.
export function read(text) {
  const reading = {
    outcomes: {},
    latency: histogram(),
    batches: histogram(),
    process: null,
    uptime: 0,
    inFlightPeak: 0,
    limit: 0,
    queuePeak: 0,
    strategy: "",
  };
  for (const line of text.split("\n")) {
    const found = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (found) take(reading, found[1], labels(found[2]), Number(found[3]));
  }
  for (const { buckets } of [reading.latency, reading.batches]) buckets.sort((a, b) => a[0] - b[0]);
  return reading;
}

function take(reading, name, label, value) {
  switch (name) {
    case "seckill_purchases_total":
      reading.outcomes[label.outcome] = value;
      break;
    case "seckill_purchases_in_flight_peak":
      reading.inFlightPeak = value;
      break;
    case "seckill_purchases_limit":
      reading.limit = value;
      break;
    case "seckill_order_queue_depth_peak":
      reading.queuePeak = value;
      break;
    case "seckill_uptime_seconds":
      reading.uptime = value;
      break;
    case "seckill_server_info":
      reading.strategy = label.strategy;
      reading.process = label.instance;
      break;
    default:
      if (name.startsWith("seckill_order_batch_size_")) {
        add(reading.batches, name, label.le, value);
      } else if (name.startsWith("seckill_http_request_seconds_") && label.route === BUYING) {
        add(reading.latency, name, label.le, value);
      }
  }
}

function labels(text = "") {
  const pairs = text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g);
  return Object.fromEntries(Array.from(pairs, ([, name, value]) => [name, value]));
}

function histogram() {
  return { buckets: [], sum: 0, count: 0 };
}

// Several series (one a status) make one histogram.
function add(into, name, bound, value) {
  if (name.endsWith("_sum")) into.sum += value;
  else if (name.endsWith("_count")) into.count += value;
  else if (bound !== undefined) {
    const upper = bound === "+Inf" ? Infinity : Number(bound);
    const bucket = into.buckets.find(([known]) => known === upper);
    if (bucket) bucket[1] += value;
    else into.buckets.push([upper, value]);
  }
}

// What a process counted after `before` and until `after`.
export function since(before, after) {
  const outcomes = {};
  for (const [code, count] of Object.entries(after.outcomes)) {
    outcomes[code] = count - (before.outcomes[code] ?? 0);
  }
  return {
    outcomes,
    latency: minus(after.latency, before.latency),
    batches: minus(after.batches, before.batches),
  };
}

function minus(after, before) {
  const earlier = new Map(before.buckets);
  return {
    buckets: after.buckets.map(([upper, count]) => [upper, count - (earlier.get(upper) ?? 0)]),
    sum: after.sum - before.sum,
    count: after.count - before.count,
  };
}

export function ordered(outcomes) {
  return outcomes.ordered ?? 0;
}

export function refused(outcomes) {
  return Object.entries(outcomes).reduce((sum, [code, count]) => sum + (code === "ordered" ? 0 : count), 0);
}

// The quantile of a histogram, interpolated within its bucket; null when nothing was counted, Infinity
// beyond the last bound.
export function quantile({ buckets }, share) {
  const total = buckets.length > 0 ? buckets[buckets.length - 1][1] : 0;
  if (total <= 0) return null;
  const rank = share * total;
  let [lower, below] = [0, 0];
  for (const [upper, count] of buckets) {
    if (count >= rank && count > below) {
      return upper === Infinity ? Infinity : lower + ((upper - lower) * (rank - below)) / (count - below);
    }
    [lower, below] = [upper, count];
  }
  return Infinity;
}

export function mean({ sum, count }) {
  return count > 0 ? sum / count : null;
}
