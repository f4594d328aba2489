// The board: reads the figures once a second, and shows them.

import * as form from "./board_form.js";
import * as login from "./board_login.js";
import * as plots from "./board_plots.js";
import * as verdict from "./board_verdict.js";
import * as metrics from "./metrics.js";
import { api, byId, element, fill, language, tabStorage, texts } from "./page.js";

const EVERY_MS = 1000;
// Latency and batches are of so many readings.
const WINDOW = 10;

const whole = new Intl.NumberFormat(language, { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat(language, { maximumSignificantDigits: 3 });
const time = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" });

// The last readings of /metrics, the oldest first: {at, reading}.
let readings = [];
let vouchers = [];
const CHOSEN = "board-voucher";
// The sale that is watched: the one that the address names, else the one before a reload.
let chosen = idOf(new URLSearchParams(location.search).get("voucher")) ?? idOf(tabStorage.get(CHOSEN));
let turn = 0;
// What the server's clock is ahead of this one's, in milliseconds, to a second.
let ahead = 0;
// What another module of this page does once a second.
const everySecond = [];
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

function figure(id, text, className = "") {
  const place = byId(`figure-${id}`);
  place.textContent = text;
  place.className = className;
}

function milliseconds(seconds) {
  if (seconds === null) return "–";
  return seconds === Infinity ? texts.beyond : `${short.format(seconds * 1000)} ms`;
}

function inMs(seconds) {
  return seconds === null ? null : Math.min(seconds, 5) * 1000;
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
  const [{ status, text }, ready, sale] = await Promise.all([
    textOf("/metrics"),
    api("GET", "/readyz"),
    chosen ? api("GET", `/api/vouchers/${chosen}`) : null,
  ]);
  showStores(ready);
  if (of !== chosen) return;
  if (sale?.ok) showSale(sale.body);
  else if (sale?.status === 404) chosen = null; // kept from another database
  if (text === null) {
    // A load balancer may answer for its servers, and keep their figures to itself.
    showLive(status === 404 || status === 403 ? "not_here" : "away");
    readings = [];
    plots.add({});
    return;
  }
  const reading = metrics.read(text);
  // Two that take turns are behind one address.
  const comesBack = processes.has(reading.process) && readings.at(-1)?.reading.process !== reading.process;
  showLive(comesBack && readings.length > 0 ? "several" : "live");
  processes.add(reading.process);
  showFigures(reading, sale?.ok ? sale.body.stock : null);
}

async function textOf(path) {
  try {
    const answer = await fetch(path, { signal: AbortSignal.timeout(5000) });
    ahead = Date.parse(answer.headers.get("date")) - Date.now() || 0;
    return { status: answer.status, text: answer.ok ? await answer.text() : null };
  } catch {
    return { status: 0, text: null };
  }
}

function showStores(ready) {
  const stores = { postgres: ready.body?.database, redis: ready.body?.redis };
  for (const [id, word] of Object.entries(stores)) {
    const isThere = word === "ok";
    figure(id, isThere ? texts.ok : texts.unavailable, isThere ? "kept" : "broken");
  }
}

function showFigures(reading, stock) {
  const at = performance.now();
  // Another process has counted other purchases.
  if (readings.at(-1)?.reading.process !== reading.process) readings = [];
  const before = readings.at(-1);
  readings = [...readings, { at, reading }].slice(-WINDOW - 1);
  figure(
    "in-flight",
    fill(texts.of_limit, { count: whole.format(reading.inFlight), limit: whole.format(reading.limit) }),
  );
  figure("queue", whole.format(reading.queue));
  figure("strategy", reading.strategy);
  if (!before) {
    showOutcomes({}, reading.outcomes, 1);
    return;
  }
  const seconds = (at - before.at) / 1000;
  const now = metrics.since(before.reading, reading);
  const lately = metrics.since(readings[0].reading, reading);
  const orders = metrics.ordered(now.outcomes) / seconds;
  const refusals = metrics.refused(now.outcomes) / seconds;
  figure("orders", whole.format(orders));
  figure("refused", whole.format(refusals));
  figure("p50", milliseconds(metrics.quantile(lately.latency, 0.5)));
  figure("p99", milliseconds(metrics.quantile(lately.latency, 0.99)));
  const batch = metrics.mean(lately.batches);
  figure("batch", batch === null ? "–" : short.format(batch));
  showOutcomes(now.outcomes, reading.outcomes, seconds);
  plots.add({
    orders,
    refusals,
    stock,
    p50: inMs(metrics.quantile(now.latency, 0.5)),
    p99: inMs(metrics.quantile(now.latency, 0.99)),
    inFlight: reading.inFlight,
    queue: reading.queue,
  });
}

function showOutcomes(now, all, seconds) {
  const rows = Object.entries(all)
    .filter(([, count]) => count > 0)
    .sort((a, b) => b[1] - a[1]);
  const cells = rows.map(([code, count]) =>
    element(
      "tr",
      { "data-code": code },
      element("th", { scope: "row" }, texts[`code_${code}`] ?? code),
      element("td", { class: "number" }, whole.format((now[code] ?? 0) / seconds)),
      element("td", { class: "number" }, whole.format(count)),
    ),
  );
  const empty = element("tr", {}, element("td", { colSpan: 3 }, texts.none_yet));
  byId("outcomes").replaceChildren(...(cells.length > 0 ? cells : [empty]));
}

export function showSale(voucher) {
  for (const listener of saleListeners) listener(voucher);
  const { status, stock, initial_stock: initial } = voucher;
  const at = { upcoming: voucher.begin_time, on_sale: voucher.end_time, ended: voucher.end_time }[status];
  const state = byId("sale-state");
  const text = fill(texts[status], { time: at && time.format(new Date(at)) });
  if (state.textContent !== text) state.textContent = text;
  state.dataset.status = status;
  figure("left", fill(texts.left_of, { left: whole.format(stock), all: whole.format(initial) }));
}

// The list of sales, and the one that is watched: the newest, where nobody chose.
async function readVouchers() {
  const list = await api("GET", "/api/vouchers?limit=100");
  if (!list.ok) return;
  vouchers = list.body;
  if (!chosen && vouchers.length > 0) choose(vouchers[0].id);
  showVouchers();
}

function showVouchers() {
  const select = byId("voucher");
  const options = vouchers.map(({ id, title }) => [id, `${title} (${id})`]);
  if (chosen && !options.some(([id]) => id === chosen)) options.unshift([chosen, chosen]);
  if (options.length === 0) options.push(["", texts.no_sale]);
  const shown = Array.from(select.options, (option) => [option.value, option.text]);
  // A list that somebody has open is left alone.
  if (JSON.stringify(shown) !== JSON.stringify(options)) {
    select.replaceChildren(...options.map(([value, text]) => element("option", { value, textContent: text })));
  }
  select.value = chosen ?? "";
}

function choose(id) {
  if (chosen && chosen !== id) plots.forgetStock();
  chosen = id;
  for (const listener of saleListeners) listener(null);
  tabStorage.set(CHOSEN, id);
  const url = new URL(location.href);
  url.searchParams.set("voucher", id);
  history.replaceState(null, "", url);
  byId("audit-verdict").replaceChildren();
  byId("audit-state").textContent = "";
  figure("left", "–");
  byId("sale-state").textContent = "";
}

async function readNodes() {
  const nodes = await api("GET", "/api/nodes", { token: login.token() });
  if (nodes.status === 401 || nodes.status === 403) return leave(nodes);
  if (!nodes.ok) return;
  const rows = nodes.body.nodes.map(({ address, instance, connections, answers }) =>
    element(
      "tr",
      { class: answers ? "this" : null },
      element("td", {}, answers ? fill(texts.this_node, { address }) : address),
      element("td", {}, instance),
      element("td", { class: "number" }, String(connections)),
    ),
  );
  byId("nodes").replaceChildren(...rows);
  figure("known-nodes", String(rows.length));
}

// A session that has ended, or is no administrator's, leads back to the login. The shop may go on with
// the latter.
function leave(answer) {
  watching += 1;
  byId("board").hidden = true;
  if (answer.status === 401) login.forget();
  login.show(answer.status === 403 ? texts.not_admin : texts.logged_out);
}

// For another module of this page: calls `more` once a second while the board is watched.
export function alsoEverySecond(more) {
  everySecond.push(more);
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

// For another module: the sale that is watched, and the server's time.
export const chosenSale = () => chosen;
export const serverNow = () => Date.now() + ahead;

export async function watch() {
  watching += 1;
  const session = watching;
  const allowed = await api("GET", "/api/nodes", { token: login.token() });
  if (session !== watching) return;
  if (allowed.status === 401 || allowed.status === 403) return leave(allowed);
  byId("login").hidden = true;
  byId("board").hidden = false;
  plots.start();
  for (turn = 0; session === watching; turn += 1) {
    const begun = performance.now();
    const every5 = turn % 5 === 0 ? [readNodes(), readVouchers()] : [];
    await Promise.all([read(), ...everySecond.map((more) => more()), ...every5]);
    await new Promise((go) => setTimeout(go, EVERY_MS - (performance.now() - begun)));
  }
}

export async function createSale(sale) {
  const created = await ask("POST", "/api/vouchers", sale);
  if (!created.ok) return created;
  choose(created.body.id);
  vouchers.unshift(created.body);
  showVouchers();
  showSale(created.body);
  return created;
}

byId("sale-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const state = byId("sale-form-state");
  state.textContent = "";
  const sale = form.newSale();
  if (!sale) return;
  const created = await createSale(sale);
  state.textContent = created.ok ? texts.created : login.refusal(created);
});

byId("voucher").addEventListener("change", (event) => event.target.value && choose(event.target.value));

byId("logout").addEventListener("click", () => {
  watching += 1;
  byId("board").hidden = true;
  login.logOut();
  login.show();
});

byId("audit").addEventListener("click", async () => {
  if (!chosen) return;
  const [button, state, of] = [byId("audit"), byId("audit-state"), chosen];
  button.disabled = true;
  state.textContent = texts.auditing;
  byId("audit-verdict").replaceChildren();
  const answer = await api("POST", `/api/vouchers/${of}/audit`, { token: login.token(), timeout: 60_000 });
  button.disabled = false;
  if (of !== chosen) return;
  if (!answer.ok) {
    state.textContent = login.refusal(answer);
    return;
  }
  const { orders, distinct_users: users, stock, initial_stock: initial } = answer.body;
  state.textContent = fill(texts.audit_figures, { orders, users, stock, initial });
  byId("audit-verdict").replaceChildren(verdict.ofAudit(answer.body));
});

login.start(watch);
if (login.token()) watch();
else login.show();
