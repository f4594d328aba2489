// Crowds: sending one, and what is known of the one that was sent last.

import * as form from "./board_form.js";
import * as login from "./board_login.js";
import * as verdict from "./board_verdict.js";
import { api, byId, fill, isolated, language, texts } from "./page.js";

const IS_OVER = ["ended", "stopped", "failed"];
const STOP_TRIES = 10;
const card = byId("crowd-card");
const whole = new Intl.NumberFormat(language, { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat(language, { maximumSignificantDigits: 3 });

// Another page may send one, too: what is settled is looked at less often.
const LOOK_EVERY_TURNS = 5;

// Whether the server's word on the last crowd is final.
let isSettled = false;
let turns = 0;
let shown = "";
let sends = 0;
const titles = new Map(); // of vouchers

const ms = (value) => (value === undefined ? "–" : `${short.format(value)} ms`);

// Asks how far the crowd is, while that may have changed.
export async function read() {
  turns += 1;
  if (!card || (isSettled && turns % LOOK_EVERY_TURNS !== 0)) return;
  const asked = sends;
  const answer = await api("GET", "/api/crowds/current", { token: login.token() });
  // It tells of the crowd before.
  if (asked !== sends) return;
  if (answer.status === 204) showNone();
  else if (answer.ok) show(answer.body);
  // (Any other answer is no answer: a server in the middle of a crowd is busy.)
  else if (answer.status === 0 && !isSettled) byId("crowd-state").textContent = texts.crowd_unknown;
}

// None was sent since the server started: what is said of one before is out of date.
function showNone() {
  const isOutOfDate = !isSettled;
  isSettled = true;
  if (!isOutOfDate) return;
  byId("send-crowd").disabled = false;
  byId("stop-crowd").disabled = true;
  byId("crowd-progress").hidden = true;
  byId("crowd-sale").textContent = byId("crowd-state").textContent = "";
  byId("crowd-verdict").replaceChildren();
}

function show(crowd) {
  const told = JSON.stringify(crowd);
  // What was said meanwhile of a press stays.
  if (isSettled && told === shown) return;
  shown = told;
  const isOver = IS_OVER.includes(crowd.phase);
  isSettled = isOver;
  byId("send-crowd").disabled = !isOver;
  byId("stop-crowd").disabled = isOver;
  const progress = byId("crowd-progress");
  progress.hidden = isOver;
  progress.max = crowd.total;
  progress.value = crowd.done;
  byId("crowd-state").textContent = words(crowd);
  byId("crowd-verdict").replaceChildren(...(crowd.verdict ? [verdict.ofCrowd(crowd.verdict)] : []));
  showSale(crowd);
}

// Which sale it is at: another one may be watched now.
async function showSale({ voucher_id: id, users, attempts }) {
  const asked = sends;
  if (!titles.has(id)) {
    const answer = await api("GET", `/api/vouchers/${id}`);
    if (answer.ok) titles.set(id, answer.body.title);
  }
  if (asked !== sends) return;
  const values = { title: isolated(titles.get(id) ?? "–"), id, users: whole.format(users), attempts };
  byId("crowd-sale").textContent = fill(texts.crowd_sale, values);
}

function words({ phase, done, total, verdict: judged, failure }) {
  return fill(texts[`phase_${phase}`], {
    done: whole.format(done),
    total: whole.format(total),
    reason: failure,
    answers: whole.format(judged?.answers_per_s ?? 0),
    orders: whole.format(judged?.orders ?? 0),
    seconds: short.format((judged?.elapsed_ms ?? 0) / 1000),
    p50: ms(judged?.latency_ms?.p50),
    p99: ms(judged?.latency_ms?.p99),
  });
}

// Sends a crowd. Pressed twice it sends one; and the server has one under way at a time.
async function send(voucher, users, attempts) {
  const button = byId("send-crowd");
  if (button.disabled) return;
  button.disabled = true;
  const body = { voucher_id: voucher, users, attempts };
  const sent = await api("POST", "/api/crowds", { body, token: login.token() });
  sends += 1;
  if (sent.ok) return show(sent.body);
  button.disabled = false;
  // Where the answer was lost, it may be under way.
  if (sent.status === 0) isSettled = false;
  byId("crowd-state").textContent = login.refusal(sent);
}

// `chosen` tells which sale is watched.
export function start(chosen) {
  byId("crowd-form")?.addEventListener("submit", async (event) => {
    event.preventDefault();
    const wrong = [];
    const number = (id) => {
      const most = Number(byId(id).max);
      const value = form.wholeNumber(id, 1, most);
      if (value === null) wrong.push([id, fill(texts.number_wrong, { least: 1, most: whole.format(most) })]);
      return value;
    };
    const [users, attempts] = [number("users"), number("attempts")];
    if (!form.show(["users", "attempts"], wrong)) return;
    if (chosen()) await send(chosen(), users, attempts);
    else byId("crowd-state").textContent = texts.no_sale;
  });
  byId("stop-crowd")?.addEventListener("click", async () => {
    // A server in the middle of a crowd may be too busy for the first request.
    let stopped;
    for (let number = 0; number < STOP_TRIES; number += 1) {
      stopped = await api("DELETE", "/api/crowds/current", { token: login.token() });
      if (stopped.status !== 0 && stopped.status !== 503) break;
      await new Promise((go) => setTimeout(go, 500));
    }
    if (!stopped.ok) byId("crowd-state").textContent = login.refusal(stopped);
  });
}
