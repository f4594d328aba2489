// Reads the text of /metrics. Nothing here needs a page to be loaded.

// What the board needs of the text: {process, uptime, outcomes: {code: count}}, where `process` tells one server process from
// another.
export function read(text) {
  const reading = { outcomes: {}, process: null, uptime: 0 };
  for (const line of text.split("\n")) {
    const [, name, label, value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    if (name === "seckill_purchases_total") reading.outcomes[labels(label).outcome] = Number(value);
    if (name === "seckill_uptime_seconds") reading.uptime = Number(value);
    if (name === "seckill_server_info") reading.process = labels(label).instance;
  }
  return reading;
}

function labels(text = "") {
  const pairs = text.matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g);
  return Object.fromEntries(Array.from(pairs, ([, name, value]) => [name, value]));
}

// The outcomes a second between two readings of one process: {code: rate}. By the server's own clock: an answer may have been
// long under way.
export function rates(before, after) {
  const seconds = after.uptime - before.uptime;
  const rate = ([code, count]) => [code, (count - (before.outcomes[code] ?? 0)) / seconds];
  return Object.fromEntries(Object.entries(after.outcomes).map(rate));
}
