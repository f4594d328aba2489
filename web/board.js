// The board: reads the figures once a second, and shows them.

import { addressOf, api, sleep, within } from "./api.js";
import { Audits } from "./board_audits.js";
import * as figures from "./board_figures.js";
import * as login from "./board_login.js";
import * as plot from "./board_plot.js";
import * as verdict from "./board_verdict.js";
import * as metrics from "./metrics.js";
import { byId, element, language, tabStorage, texts } from "./page.js";
import { fill, isolated } from "./words.js";

const EVERY_MS = 1000;

const time = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" });
const whole = new Intl.NumberFormat(language, { maximumFractionDigits: 0 });
const figure = figures.show;

let vouchers = [];
// What each sale is called that was read: a list may be older than a sale.
const titles = new Map();
const CHOSEN = "board-voucher";
// The sale that is watched: the one that the address names, else the one before a reload.
let chosen = idOf(new URLSearchParams(location.search).get("voucher")) ?? idOf(tabStorage.get(CHOSEN));
// Of each sale: its body, and when it was.
const audits = new Audits();
// What is done once a second.
const turns = [];
// What another module does with the sale that is watched.
const saleListeners = [];
// The figures are read for the session that has this number.
let watching = 0;
// The processes whose figures were read.
const processes = new Set();

// The id of a voucher, or null: an address may have anything in its place.
function idOf(text) {
  return /^[1-9][0-9]{0,18}$/.test(text ?? "") ? text : null;
}

// Says how live the figures are: `live`, `away`, `not_here` or `several`.
function showLive(state) {
  const place = byId("live");
  if (place.textContent !== texts[state]) place.textContent = texts[state];
  place.className = state === "live" ? "live kept" : "live broken";
}

// One turn: everything that changes every second.
async function read() {
  const of = chosen;
  const [{ status, text }, sale] = await Promise.all([
    textOf("/metrics"),
    chosen ? api("GET", `/api/vouchers/${chosen}`) : null,
  ]);
  if (of !== chosen) return;
  if (sale?.ok) showSale(sale.body);
  else if (sale?.status === 404) chosen = null; // kept from another database
  if (text === null) {
    // A load balancer may answer for its servers, and keep their figures to itself.
    showLive(status === 404 || status === 403 ? "not_here" : "away");
    figures.forgetReading();
    plot.add(null);
    return;
  }
  const reading = metrics.read(text);
  // Two that take turns are behind one address.
  const before = figures.lastProcess();
  showLive(before !== null && before !== reading.process && processes.has(reading.process) ? "several" : "live");
  processes.add(reading.process);
  figures.showReading(reading);
}

async function textOf(path) {
  try {
    const answer = await fetch(addressOf(path), { signal: within(5000) });
    return { status: answer.status, text: answer.ok ? await answer.text() : null };
  } catch {
    return { status: 0, text: null };
  }
}

export function showSale(voucher) {
  for (const listener of saleListeners) listener(voucher);
  titles.set(voucher.id, voucher.title);
  const { status, stock, initial_stock: initial } = voucher;
  const { begin_time: begin, end_time: end, draw_time: draw } = voucher;
  const at = { upcoming: begin, draw_open: draw, on_sale: end, ended: end }[status];
  const state = byId("sale-state");
  const text = fill(texts[status], { time: at && time.format(new Date(at)) });
  if (state.textContent !== text) state.textContent = text;
  state.dataset.status = status;
  figure("left", fill(texts.left_of, { left: whole.format(stock), all: whole.format(initial) }));
  const { isStale, isDue } = audits.see(voucher, performance.now());
  if (isStale) showAudit(null);
  if (isDue) audit();
}

// The list of sales, and the one that is watched: the newest, where nobody chose.
async function readVouchers(isFifth) {
  if (!isFifth) return;
  const list = await api("GET", "/api/vouchers?limit=100");
  if (!list.ok) return;
  vouchers = list.body;
  if (!chosen && vouchers.length > 0) choose(vouchers[0].id);
  showVouchers();
}

function showVouchers() {
  const select = byId("voucher");
  for (const { id, title } of vouchers) titles.set(id, title);
  const named = (id) => [id, titles.has(id) ? `${isolated(titles.get(id))} (${id})` : id];
  const options = vouchers.map(({ id }) => named(id));
  if (chosen && !options.some(([id]) => id === chosen)) options.unshift(named(chosen));
  if (options.length === 0) {
    options.push(["", texts.no_sale]);
    byId("new-sale").open = true;
  }
  const shown = Array.from(select.options, (option) => [option.value, option.text]);
  // A list that somebody has open is left alone.
  if (JSON.stringify(shown) !== JSON.stringify(options)) {
    select.replaceChildren(...options.map(([value, text]) => element("option", { value, textContent: text })));
  }
  select.value = chosen ?? "";
}

function choose(id) {
  chosen = id;
  for (const listener of saleListeners) listener(null);
  tabStorage.set(CHOSEN, id);
  const url = new URL(location.href);
  url.searchParams.set("voucher", id);
  history.replaceState(null, "", url);
  showAudit(audits.of(id));
  audits.comeBack(id);
  figure("left", "–");
  byId("sale-state").textContent = "";
}

// A session that has ended, or is no administrator's, leads back to the login.
function leave(answer) {
  // Several questions are told so at once.
  if (!byId("login").hidden) return;
  watching += 1;
  byId("board").hidden = true;
  if (answer.status === 401) login.forget();
  login.show(answer.status === 403 ? texts.not_admin : texts.logged_out);
}

// For another module, too: calls `work` once a second while the board is watched, with whether this is a fifth turn.
export function everySecond(work) {
  turns.push(work);
}

// For another module: calls `listener` with the voucher of the sale that is watched, at each reading; with
// null when another sale was chosen, of which nothing is known yet.
export function onSale(listener) {
  saleListeners.push(listener);
}

// For another module: asks as the administrator, whose session may have ended.
export async function ask(method, path, body) {
  const answer = await api(method, path, { body, token: login.token() });
  if (answer.status === 401 || answer.status === 403) leave(answer);
  return answer;
}

// For another module: the sale that is watched.
export const chosenSale = () => chosen;

export async function watch() {
  watching += 1;
  const session = watching;
  // Asked in this way, "no" is no error that a browser would write to its console.
  const me = await api("GET", "/api/me", { token: login.token() });
  if (session !== watching) return;
  if (me.status === 401 || me.status === 403) return leave(me);
  if (me.ok && !me.body.administrator) return leave({ status: 403 });
  byId("login").hidden = true;
  byId("board").hidden = false;
  plot.start();
  for (let turn = 0; session === watching; turn += 1) {
    const begun = performance.now();
    await Promise.all(turns.map((work) => work(turn % 5 === 0)));
    await sleep(EVERY_MS - (performance.now() - begun));
  }
}

// For another module: watches a sale that was just created.
export function watchNew(voucher) {
  choose(voucher.id);
  vouchers.unshift(voucher);
  showVouchers();
  showSale(voucher);
}

byId("voucher").addEventListener("change", (event) => event.target.value && choose(event.target.value));

byId("logout").addEventListener("click", () => {
  watching += 1;
  byId("board").hidden = true;
  login.logOut();
  login.show();
});

// Shows an audit; null: there is none.
function showAudit(made) {
  byId("audit-verdict").replaceChildren(...(made ? [verdict.ofAudit(made.body)] : []));
  if (!made) {
    figure("verdict", texts.not_audited);
    byId("audit-state").textContent = "";
    return;
  }
  const { holds, orders, distinct_users: users, stock, initial_stock: initial } = made.body;
  figure("verdict", `${holds ? "✓" : "✗"} ${holds ? texts.all_kept : texts.some_broken}`, holds ? "kept" : "broken");
  const [all, buyers, left, first] = [orders, users, stock, initial].map((count) => whole.format(count));
  const counts = { orders: all, users: buyers, stock: left, initial: first };
  byId("audit-state").textContent = fill(texts.audit_figures, { ...counts, time: time.format(made.at) });
}

async function audit() {
  const [button, state, of] = [byId("audit"), byId("audit-state"), chosen];
  if (!of || button.disabled) return;
  button.disabled = true;
  figure("verdict", texts.auditing);
  state.textContent = "";
  byId("audit-verdict").replaceChildren();
  const answer = await api("POST", `/api/vouchers/${of}/audit`, { token: login.token(), timeout: 60_000 });
  button.disabled = false;
  audits.keep(of, answer.ok ? { body: answer.body, at: new Date() } : null, performance.now());
  if (of !== chosen) return;
  showAudit(answer.ok ? audits.of(of) : null);
  if (!answer.ok) state.textContent = login.refusal(answer);
}

byId("audit").addEventListener("click", audit);

everySecond(read);
everySecond(readVouchers);
login.start(watch);
if (login.token()) watch();
else login.show();
