// The vouchers as they change: by server-sent events; where there is no room for a stream, by asking
// every five seconds. And the time by the server's clock, whatever the clock of this machine shows.

import { addressOf, api } from "./api.js";

const POLL_EVERY_MS = 5_000;
const STREAM_AGAIN_AFTER_MS = 30_000;
// The server says something every 15 seconds; a stream that is silent for longer is gone, as after a
// change of network.
const SILENT_AFTER_MS = 40_000;

// What to add to `performance.now()`, which nobody sets.
let offset = null;

// Milliseconds since 1970 by the server's clock; null before the server has said anything.
export const serverNow = () => (offset === null ? null : performance.now() + offset);

// By the server's clock it is `from` or later; it was not yet `to` when the request went out, at `sent`.
// What comes late says little, what comes at once says more.
function learn(from, to = Infinity, sent = 0) {
  const lowest = from - performance.now();
  offset = offset === null ? lowest : Math.min(Math.max(offset, lowest), to - sent);
}

// The API gives so many vouchers where nobody asks for more: events and polls cover the newest of them.
export const PAGE = 20;

// A page of the vouchers, from before the one of this id, of so many: the answer of the API, which also says the time.
export async function readVouchers(before = null, limit = PAGE) {
  const sent = performance.now();
  const answer = await api("GET", `/api/vouchers${before ? `?before=${before}&limit=${limit}` : ""}`);
  const date = Date.parse(answer.headers.get("date"));
  // Whole seconds: it may be almost a second later.
  if (answer.ok && Number.isFinite(date)) learn(date, date + 1_000, sent);
  return answer;
}

// A little more or less, so that those who wait together do not ask together.
export const about = (ms) => ms * (0.8 + 0.4 * Math.random());

// Keeps a stream of `url` while somebody looks at the page; one that is silent for too long is opened again.
// `events` has what hears the data of each kind of event. `opened`, `silent`, `failed` (whether there was no
// room, then it is tried again after `againAfterMs`) and `closed` are told of the stream.
export function keepStream({ url, events, againAfterMs, opened, silent, failed, closed }) {
  let stream = null;
  let streamTimer = 0;
  let silenceTimer = 0;

  function isAlive() {
    clearTimeout(silenceTimer);
    silenceTimer = setTimeout(() => {
      open();
      silent();
    }, SILENT_AFTER_MS);
  }

  function open() {
    clearTimeout(streamTimer);
    stream?.close();
    const next = new EventSource(addressOf(url));
    stream = next;
    next.addEventListener("open", () => {
      isAlive();
      opened();
    });
    for (const [kind, hear] of Object.entries(events)) {
      next.addEventListener(kind, (event) => {
        isAlive();
        hear(JSON.parse(event.data));
      });
    }
    next.addEventListener("error", () => {
      if (stream !== next) return;
      clearTimeout(silenceTimer);
      // Closed: refused, there is no room. Otherwise the browser connects again when `retry` says.
      const isRefused = next.readyState === EventSource.CLOSED;
      if (isRefused) streamTimer = setTimeout(open, about(againAfterMs));
      failed(isRefused);
    });
  }

  function close() {
    clearTimeout(streamTimer);
    clearTimeout(silenceTimer);
    stream?.close();
    stream = null;
    closed();
  }

  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => event.persisted && !document.hidden && open());
  // In a tab in the background it waits until somebody looks.
  if (!document.hidden) open();
}

// Calls `heard` with a list of vouchers whenever some changed, and `state` with "live", "polling" or
// "offline". A page that nobody looks at holds no stream.
export function watch({ heard, state }) {
  let isPolling = false;
  let pollTimer = 0;
  // How often polling was ended.
  let ended = 0;

  // One question at a time. What is answered when the stream is back is older than what that has said; and when polling
  // was ended and begun again meanwhile, another question is under way.
  async function poll() {
    const before = ended;
    const answer = await readVouchers();
    if (before !== ended) return;
    pollTimer = setTimeout(poll, about(POLL_EVERY_MS));
    if (!answer.ok) return state("offline");
    state("polling");
    heard(answer.body);
  }

  // A stream that fails again and again does not put the next question off.
  function startPolling(ms) {
    if (isPolling) return;
    isPolling = true;
    pollTimer = setTimeout(poll, ms);
  }

  function stopPolling() {
    isPolling = false;
    ended += 1;
    clearTimeout(pollTimer);
  }

  keepStream({
    url: "/api/events",
    againAfterMs: STREAM_AGAIN_AFTER_MS,
    events: {
      voucher({ now, ...voucher }) {
        learn(Date.parse(now));
        heard([voucher]);
      },
      time: ({ now }) => learn(Date.parse(now)),
    },
    opened() {
      stopPolling();
      state("live");
    },
    silent: () => startPolling(0),
    failed(isRefused) {
      if (!isRefused) state("offline");
      startPolling(isRefused ? 0 : about(POLL_EVERY_MS));
    },
    closed: stopPolling,
  });
}
