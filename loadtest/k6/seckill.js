// What the scripts beside this file share: settings, tokens, the two kinds of server, what an
// answer means, and the books. No script of its own.

import { sleep } from 'k6';
import { SharedArray } from 'k6/data';
import exec from 'k6/execution';
import http from 'k6/http';
import { Counter, Gauge, Trend } from 'k6/metrics';

// A refusal is an answer, not a failure; only a 5xx or silence is.
http.setResponseCallback(http.expectedStatuses({ min: 200, max: 499 }));

// --- Settings --------------------------------------------------------------------------------

/** Ends the run with one sentence; before anything was sent when called while the script loads. */
export function stop(sentence) {
  exec.test.abort(sentence);
}

export function text(name, otherwise) {
  return __ENV[name] || otherwise;
}

/** A whole number from the environment, at least `least`. */
export function whole(name, otherwise, least = 1) {
  const said = text(name, String(otherwise));
  if (!/^\d{1,9}$/.test(said) || Number(said) < least) {
    stop(`${name}="${said}" is not a whole number from ${least} on.`);
  }
  return Number(said);
}

/** Whole numbers from the environment, separated by commas. */
export function wholes(name) {
  const said = text(name, '');
  if (said !== '' && !/^[1-9]\d{0,8}(,[1-9]\d{0,8})*$/.test(said)) {
    stop(`${name}="${said}" is not a list of whole numbers such as 500,1000,2000.`);
  }
  return said === '' ? [] : said.split(',').map(Number);
}

export function baseUrl(otherwise) {
  const said = text('BASE_URL', otherwise).replace(/\/+$/, '');
  if (!/^https?:\/\/[^/?#\s]+$/.test(said)) {
    stop(`BASE_URL="${said}" is not an address such as http://127.0.0.1:8080.`);
  }
  return said;
}

/**
 * The tokens in the file that `seckill tokens` wrote, CSV or one a line: one copy for all VUs. Its
 * name is taken from the directory one is in, as everywhere, and not, as k6 would, from the script's.
 */
export function readTokens(atLeast) {
  const name = text('TOKENS', 'tokens.csv');
  const path = name.startsWith('/') ? name : `${__ENV.PWD || '.'}/${name}`;
  const how = `"seckill tokens --users ${atLeast} --out ${name}" writes it`;
  let tokens;
  try {
    tokens = new SharedArray('tokens', () => parseTokens(open(path)));
  } catch (error) {
    stop(`TOKENS: cannot use "${path}" (${String(error.message || error).split('\n')[0]}): ${how}.`);
  }
  if (tokens.length < atLeast) {
    stop(`TOKENS: "${path}" has ${tokens.length} tokens, and this needs ${atLeast}: ${how}.`);
  }
  return tokens;
}

function parseTokens(file) {
  const lines = file.split(/\r?\n/);
  const isCsv = lines[0] === 'user_id,token';
  const form = isCsv ? /^\d+,([^\s,"]+)$/ : /^([^\s,"]+)$/;
  return lines.flatMap((line, at) => {
    if (line === '' || (isCsv && at === 0)) return [];
    const [, token] = form.exec(line) || [];
    if (!token) throw new Error(`line ${at + 1} is not ${isCsv ? "a user's number, a comma and a token" : 'a token, nor the head user_id,token'}`);
    return [token];
  });
}

// --- What is counted -------------------------------------------------------------------------

/** Every answer to a purchase: an order, or the `code` of a refusal or failure. */
export const CODES = [
  'ordered',
  'sold_out',
  'already_bought',
  'order_in_progress',
  'sale_not_started',
  'sale_ended',
  'sale_paused',
  'voucher_not_found',
  'unauthenticated',
  'forbidden',
  'invalid_request',
  'too_many_requests',
  'unavailable',
  'internal_error',
];
/** What is no answer of the API at all. */
export const NO_ANSWERS = ['no_answer', 'unknown_answer'];

const outcomes = {};
for (const code of [...CODES, ...NO_ANSWERS]) outcomes[code] = new Counter(code);

const latency = new Trend('purchase_ms', true);
const tries = new Counter('purchases');
const unexpected = new Counter('unexpected');
const doubleSales = new Counter('double_sales');
// These two begin below zero, with what may be sold and with what was sold, and each order adds
// one. That is how a threshold, which is fixed before the server has been asked anything, can
// hold the orders against the stock.
const beyondStock = new Counter('orders_beyond_stock');
const unbalanced = new Counter('unbalanced');
const leftUnsold = new Counter('left_unsold');
const tooEarly = new Counter('sold_out_too_early');
const auditOversold = new Counter('audit_oversold');
const auditDuplicates = new Counter('audit_duplicates');
const auditLost = new Counter('audit_lost');
const booksRead = new Counter('books_read');
const stockBefore = new Gauge('stock_before');
const stockAfter = new Gauge('stock_after');

/** Each check: the threshold that makes k6 exit with a failure, and what it says. */
export const CHECKS = {
  unexpected: ['count==0', 'answers with a code that has no place here'],
  orders_beyond_stock: ['count<=0', 'orders confirmed, less what there was: above zero is an oversell'],
  double_sales: ['count==0', 'orders confirmed to one user beyond the first'],
  unbalanced: ['count==0', 'orders confirmed, less what went from the stock'],
  left_unsold: ['count==0', 'vouchers left although enough people came'],
  sold_out_too_early: ['count==0', '"sold out" although there was enough for everybody'],
  books_read: ['count==1', 'the server showed its stock at the end'],
  audit_oversold: ['count==0', 'audit: orders in the database beyond the stock'],
  audit_duplicates: ['count==0', 'audit: orders in the database beyond one a user'],
  audit_lost: ['count==0', 'orders confirmed, less those in the database'],
};

/** The thresholds of these checks, and those of one's own: `{ name: [threshold, meaning] }`. */
export function thresholds(names, own = {}) {
  const chosen = {};
  for (const name of names) chosen[name] = [CHECKS[name][0]];
  for (const [name, [threshold]] of Object.entries(own)) chosen[name] = [threshold];
  if (__ENV.EXPECT_ORDERS) chosen.ordered = [`count==${whole('EXPECT_ORDERS', 0, 0)}`];
  return chosen;
}

export const TREND_STATS = ['min', 'avg', 'med', 'p(90)', 'p(95)', 'p(99)', 'max', 'count'];

// --- The servers -----------------------------------------------------------------------------

const PATIENCE = { timeout: '10s', tags: { name: 'books' } };

export function ask(method, url, body, params = {}) {
  const response = http.request(method, url, body, { ...PATIENCE, ...params });
  let document = null;
  try {
    document = response.json();
  } catch (_) {
    // Not this API's; `status` and the missing members tell.
  }
  return { status: response.status, document: document || {}, error: response.error };
}

export function demandAnswer(asked, url, how) {
  if (asked.status === 0) stop(`nothing answers at ${url} (${asked.error}): start it with "${how}", or set BASE_URL.`);
  return asked;
}

/**
 * The API of `seckill serve`: the voucher VOUCHER, or the newest one.
 *
 * Every server has `open()`, for setup, which says where to buy and how many there are,
 * `close(sale)`, for teardown, which says how many are left, and for each purchase `carry(token)`, the
 * parameters with the token, and `read(response)`, the answer.
 */
export function production(tokens) {
  const url = baseUrl('http://127.0.0.1:8080');
  const id = text('VOUCHER', '');
  const add = '"seckill voucher add --title T --stock 100" puts one on sale';
  if (!/^\d*$/.test(id)) stop(`VOUCHER="${id}" is not the number of a voucher.`);

  function find() {
    const where = id ? `/api/vouchers/${id}` : '/api/vouchers?limit=1';
    const { status, document } = demandAnswer(ask('GET', url + where), url, 'seckill serve');
    const voucher = id ? document : document[0];
    if (status === 404 || (status === 200 && !voucher)) stop(`there is no voucher ${id ? `${id} ` : ''}at ${url}: ${add}.`);
    if (status !== 200 || typeof voucher.stock !== 'number') stop(`${url}${where} answered ${status}, and no voucher.`);
    return voucher;
  }

  return {
    carry: bearer,
    read,
    open() {
      const voucher = find();
      if (voucher.status !== 'on_sale' && voucher.status !== 'sold_out') {
        stop(`voucher ${voucher.id} is not on sale (${voucher.status}): ${add}.`);
      }
      const me = ask('GET', `${url}/api/me`, null, bearer(tokens[0]));
      if (me.status !== 200) {
        stop(`${url} does not take the first token (${me.document.code}): mint them with the same data directory or secret that the server has.`);
      }
      return {
        name: `voucher ${voucher.id} (${voucher.title}) at ${url}`,
        voucher: voucher.id,
        stock: voucher.stock,
        price: voucher.price,
        payWithinS: voucher.pay_within_s,
        url,
        buy: `${url}/api/vouchers/${voucher.id}/orders`,
        hello: `${url}/healthz`,
      };
    },
    close(sale) {
      // What the API shows is at most a second old.
      sleep(1.2);
      const asked = ask('GET', `${url}/api/vouchers/${sale.voucher}`);
      return asked.status === 200 ? { stock: asked.document.stock } : null;
    },
    /** The orders that a user holds of the voucher, as the API lists them; null when it does not. */
    ordersOf(sale, token) {
      const asked = ask('GET', `${url}/api/orders?limit=100`, null, bearer(token));
      if (asked.status !== 200 || !Array.isArray(asked.document)) return null;
      return asked.document.filter((order) => order.voucher_id === sale.voucher);
    },
  };
}

/** `seckill lab serve`: a new voucher at the stall of one rung. */
export function lab(rung, stock) {
  const url = baseUrl('http://127.0.0.1:8081');
  return {
    carry: bearer,
    read,
    open() {
      const stall = `${url}/lab/${encodeURIComponent(rung)}/vouchers`;
      const asked = ask('POST', stall, JSON.stringify({ stock }));
      const { status, document } = demandAnswer(asked, url, 'seckill lab serve');
      if (document.code === 'rung_not_found') stop(`RUNG: ${document.detail}.`);
      if (status !== 201) stop(`${stall} answered ${status}, and put nothing on sale: is that "seckill lab serve"?`);
      const listed = ask('GET', `${url}/lab`).document.rungs || [];
      const about = listed.find((one) => one.rung === document.rung) || {};
      return {
        name: `${document.rung}, voucher ${document.voucher_id} at ${url}`,
        voucher: document.voucher_id,
        stock,
        buy: `${stall}/${document.voucher_id}/orders`,
        books: `${stall}/${document.voucher_id}`,
        hello: `${url}/lab`,
        idea: about.idea,
        keeps: about.keeps,
      };
    },
    close(sale) {
      const asked = ask('GET', sale.books);
      return asked.status === 200 ? { stock: asked.document.stock, audit: asked.document } : null;
    },
  };
}

// --- The sale --------------------------------------------------------------------------------

/**
 * For setup: opens the sale for `demand` people, each of whom wants one. `leadMs` from now all
 * begin at once.
 */
export function openSale(server, demand, leadMs = 0) {
  const sale = server.open();
  stockBefore.add(sale.stock);
  beyondStock.add(-sale.stock);
  return { ...sale, demand, begin: Date.now() + leadMs };
}

/** For teardown: holds the books against what the buyers were told. */
export function closeSale(server, sale) {
  const books = server.close(sale);
  if (!books) return;
  booksRead.add(1);
  stockAfter.add(books.stock);
  unbalanced.add(-(sale.stock - books.stock));
  if (sale.demand >= sale.stock) leftUnsold.add(Math.max(0, books.stock));
  if (books.audit) {
    auditOversold.add(books.audit.oversold);
    auditDuplicates.add(books.audit.duplicates);
    auditLost.add(-books.audit.orders);
  }
}

export function bearer(token) {
  return { headers: { Authorization: `Bearer ${token}` } };
}

/**
 * Opens a connection for each click, then waits for the moment at which the sale begins. Without
 * that the first click would be through before the second had a connection.
 */
export function waitForBegin(sale, clicks) {
  const params = { tags: { name: 'hello' }, responseType: 'none', timeout: '30s' };
  http.batch(Array(clicks).fill(['GET', sale.hello, null, params]));
  const left = sale.begin - Date.now();
  if (left > 0) sleep(left / 1000);
}

/** One user's clicks, all at once; gives back each answer as `{ code, order }`. */
export function buy(server, sale, token, clicks, expected) {
  const params = { ...server.carry(token), tags: { name: 'buy' }, timeout: '30s' };
  const responses = clicks === 1
    ? [http.post(sale.buy, null, params)]
    : http.batch(Array(clicks).fill(['POST', sale.buy, null, params]));
  const answers = responses.map((response) => {
    const answer = server.read(response);
    tries.add(1);
    latency.add(response.timings.duration);
    outcomes[answer.code].add(1);
    if (!expected.includes(answer.code)) unexpected.add(1);
    if (answer.code === 'sold_out' && sale.demand <= sale.stock) tooEarly.add(1);
    return answer;
  });
  const orders = answers.filter(({ code }) => code === 'ordered').length;
  if (orders > 0) {
    for (const counter of [beyondStock, unbalanced, auditLost]) counter.add(orders);
    if (orders > 1) doubleSales.add(orders - 1);
  }
  return answers;
}

/** An order was not paid in time, and its voucher is on sale again. */
export function orderEnded() {
  for (const counter of [beyondStock, unbalanced]) counter.add(-1);
}

function read(response) {
  if (response.status === 0) return { code: 'no_answer' };
  let document;
  try {
    document = response.json() || {};
  } catch (_) {
    return { code: 'unknown_answer' };
  }
  const order = document.order_id;
  if (response.status === 201) return order ? { code: 'ordered', order } : { code: 'unknown_answer' };
  return { code: CODES.indexOf(document.code) > 0 ? document.code : 'unknown_answer', order };
}
