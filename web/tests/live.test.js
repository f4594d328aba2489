import assert from "node:assert";
import { beforeEach, test } from "node:test";

// A browser's window as far as a stream needs one: its timers run when a test says so.
let timers, streams, answers, hears, states, vouchers, now;
let copies = 0;
const hearers = (of) => (kind, hear) => (hears[`${of} ${kind}`] = hear);

class Stream {
  static CLOSED = 2;
  constructor() {
    this.readyState = 1;
    this.hears = {};
    streams.push(this);
  }
  addEventListener(kind, hear) {
    this.hears[kind] = hear;
  }
  close() {
    this.readyState = Stream.CLOSED;
  }
  tell(kind, data) {
    this.hears[kind]({ data: JSON.stringify(data) });
  }
  fail(isRefused) {
    this.readyState = isRefused ? Stream.CLOSED : 0;
    this.hears.error({});
  }
}

const settle = () => new Promise((done) => setImmediate(done));

beforeEach(() => {
  [timers, streams, answers, hears, states, vouchers, now] = [new Map(), [], [], {}, [], [], 0];
  let number = 0;
  globalThis.document = {
    hidden: false,
    documentElement: { lang: "en" },
    addEventListener: hearers("document"),
  };
  globalThis.addEventListener = hearers("window");
  globalThis.EventSource = Stream;
  globalThis.fetch = () => new Promise((answer) => answers.push(answer));
  globalThis.setTimeout = (run, ms) => {
    timers.set(++number, [run, ms]);
    return number;
  };
  globalThis.clearTimeout = (id) => timers.delete(id);
  Object.defineProperty(performance, "now", { value: () => now, configurable: true });
  // No chance: the next poll is due after five seconds exactly.
  Math.random = () => 0.5;
});

// The script as a page that was just loaded has it.
async function watched() {
  copies += 1;
  const live = await import(`../live.js?${copies}`);
  live.watch({ heard: (some) => vouchers.push(...some), state: (state) => states.push(state) });
  return live;
}

function look(isHidden) {
  document.hidden = isHidden;
  hears["document visibilitychange"]();
}

const lastState = () => states[states.length - 1];
const due = (ms) => [...timers.values()].filter((timer) => timer[1] === ms).length;

function run(ms) {
  const [id, [work]] = [...timers].find(([, timer]) => timer[1] === ms);
  timers.delete(id);
  work();
}

async function answer(body, headers = {}) {
  answers.shift()(new Response(JSON.stringify(body), { headers }));
  await settle();
}

test("a page in a tab in the background opens no stream until somebody looks, and holds none when left", async () => {
  document.hidden = true;
  await watched();
  assert.equal(streams.length, 0);
  look(false);
  streams[0].tell("open");
  assert.deepEqual([streams.length, states], [1, ["live"]]);
  look(true);
  assert.equal(streams[0].readyState, Stream.CLOSED);
  assert.equal(timers.size, 0);
  hears["window pageshow"]({ persisted: false });
  assert.equal(streams.length, 1);
  document.hidden = false;
  hears["window pageshow"]({ persisted: true });
  assert.equal(streams.length, 2);
  hears["window pagehide"]();
  assert.equal(streams[1].readyState, Stream.CLOSED);
});

test("a stream that ends is said to have ended before anything else is asked, and polled for after a while", async () => {
  await watched();
  streams[0].tell("open");
  streams[0].tell("voucher", { now: "2026-11-12T00:00:00Z", id: "7", stock: 4 });
  assert.deepEqual(vouchers, [{ id: "7", stock: 4 }]);
  streams[0].fail(false);
  assert.deepEqual(states, ["live", "offline"]);
  assert.equal(answers.length, 0);
  // One that fails again and again does not put the question off.
  streams[0].fail(false);
  assert.equal(due(5_000), 1);
  run(5_000);
  await answer([{ id: "7", stock: 3 }]);
  assert.deepEqual([states[3], vouchers[1]], ["polling", { id: "7", stock: 3 }]);
  streams[0].tell("open");
  assert.deepEqual([lastState(), due(5_000)], ["live", 0]);
});

test("where there is no room for a stream the page asks at once and every few seconds, and tries the stream again", async () => {
  await watched();
  streams[0].fail(true);
  run(0);
  await answer([]);
  assert.equal(lastState(), "polling");
  run(5_000);
  answers.shift()(new Response("{}", { status: 503 }));
  await settle();
  assert.deepEqual([lastState(), due(5_000)], ["offline", 1]);
  run(30_000);
  assert.equal(streams.length, 2);
  streams[1].tell("open");
  assert.deepEqual([lastState(), due(5_000)], ["live", 0]);
});

test("a page that is left and looked at again asks one question at a time", async () => {
  await watched();
  streams[0].fail(true);
  run(0);
  for (let times = 1; times <= 2; times += 1) {
    look(true);
    look(false);
    streams[times].fail(true);
    run(0);
  }
  assert.equal(answers.length, 3);
  while (answers.length > 0) await answer([{ id: "7" }]);
  // Of three answers the last question's counts, and one more is due.
  assert.deepEqual([vouchers.length, due(5_000)], [1, 1]);
});

test("a stream that is silent for too long is opened again, and the page asks meanwhile", async () => {
  await watched();
  streams[0].tell("open");
  streams[0].tell("time", { now: "2026-11-12T00:00:00Z" });
  assert.equal(due(40_000), 1);
  run(40_000);
  assert.deepEqual([streams.length, streams[0].readyState], [2, Stream.CLOSED]);
  // What the old one has to say of its end is no news.
  streams[0].fail(false);
  assert.deepEqual([states, due(0)], [["live"], 1]);
});

test("the time is the server's, by the word that says most of it", async () => {
  const live = await watched();
  const noon = Date.parse("2026-11-12T12:00:00Z");
  assert.equal(live.serverNow(), null);
  streams[0].tell("open");
  now = 100;
  streams[0].tell("time", { now: "2026-11-12T12:00:00Z" });
  now = 1_100;
  assert.equal(live.serverNow(), noon + 1_000);
  // What comes late says little: it is that time or later.
  streams[0].tell("time", { now: "2026-11-12T12:00:00.500Z" });
  assert.equal(live.serverNow(), noon + 1_000);
  streams[0].tell("time", { now: "2026-11-12T12:00:05Z" });
  assert.equal(live.serverNow(), noon + 5_000);
  // The date of an answer is in whole seconds: it was not a second later yet when the question went out.
  const asked = live.readVouchers();
  now = 3_100;
  await answer([], { date: "Thu, 12 Nov 2026 12:00:03 GMT" });
  await asked;
  assert.equal(live.serverNow(), noon + 6_000);
});

test("older vouchers are asked for by the one before them", async () => {
  const live = await watched();
  const paths = [];
  globalThis.fetch = async (path) => {
    paths.push(path);
    return new Response("[]");
  };
  await live.readVouchers();
  await live.readVouchers("7");
  await live.readVouchers("7", 100);
  const expected = ["", "?before=7&limit=20", "?before=7&limit=100"];
  assert.deepEqual(
    paths,
    expected.map((query) => `/api/vouchers${query}`),
  );
});
