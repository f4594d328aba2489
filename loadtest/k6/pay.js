// Some pay and some do not: everyone comes at once for too small a stock, half of them mean to pay. Orders
// that are not paid expire, and those who mean to pay come again until they have one.
//
//   seckill voucher add --title pay --stock 100 --price 8000 --pay-within 5s
//   seckill tokens --users 200 --out tokens.csv
//   k6 run loadtest/k6/pay.js
//
//   BASE_URL, VOUCHER, TOKENS   as in rush.js. The server takes payments by its sandbox (`make serve` does;
//                               with a DATABASE_URL set SECKILL_PAYMENTS=sandbox)
//   PAYERS       how many pay: as many as there are vouchers (default 100)
//   USERS        how many come (default twice as many)
//   PATIENCE_S   so many seconds a buyer who means to pay comes again (default 90)
//   LEAD_S       seconds in which all connect before the sale begins (default 2)
//   EXPECT_PAID  exactly so many orders are paid, or the run fails (default PAYERS)
//   REPORT       the page that is written (default k6-pay.html; `none` for none)
//
// Exit status 0: every voucher is paid for in the end, once, by a buyer who has it, and every unpaid order
// expired. 99: not so. 107, 108: could not run.

import { sleep } from 'k6';
import exec from 'k6/execution';
import http from 'k6/http';
import { Counter } from 'k6/metrics';
import {
  TREND_STATS, bearer, buy, closeSale, openSale, orderEnded, production, readTokens, stop, text, thresholds, waitForBegin, whole,
} from './seckill.js';
import { report } from './report.js';

const PAYERS = whole('PAYERS', 100);
const USERS = whole('USERS', 2 * PAYERS, PAYERS);
const PATIENCE_MS = whole('PATIENCE_S', 90) * 1000;
const LEAD_S = whole('LEAD_S', 2, 0);
const EXPECTED = ['ordered', 'sold_out'];
/** A server looks for unpaid orders once a second; a busy one may take longer. */
const EXPIRED_AFTER_MS = 30 * 1000;
/** How often a payment is tried that the server has no room for. */
const PAY_TRIES = 10;
const tokens = readTokens(USERS);
if (text('DIALECT', 'seckill') !== 'seckill') stop('DIALECT: hm-dianping has no payments; pay.js speaks to seckill alone.');
const server = production(tokens);

const paid = new Counter('paid');
const expired = new Counter('expired');
const notExpired = new Counter('not_expired');
const notServed = new Counter('payers_not_served');
const withoutOrder = new Counter('paid_without_order');
const payableAgain = new Counter('payable_again');
const wrongAnswers = new Counter('wrong_payment_answers');

const OWN = {
  paid: [`count==${whole('EXPECT_PAID', PAYERS, 0)}`, 'buyers who were told that their order is paid: one a voucher'],
  not_expired: ['count==0', 'unpaid orders that were still there half a minute after their time'],
  payers_not_served: ['count==0', 'buyers who meant to pay and never got an order'],
  paid_without_order: ['count==0', 'buyers who paid, and whose order is not paid'],
  payable_again: ['count==0', 'paid orders of which a second payment could be begun'],
  wrong_payment_answers: ['count==0', 'answers to payments that have no place here'],
};

export const options = {
  scenarios: {
    pay: { executor: 'per-vu-iterations', vus: USERS, iterations: 1, maxDuration: `${PATIENCE_MS / 1000 + 120}s` },
  },
  batch: 2,
  batchPerHost: 2,
  summaryTrendStats: TREND_STATS,
  thresholds: thresholds(['orders_beyond_stock', 'double_sales', 'unbalanced', 'left_unsold', 'unexpected', 'books_read'], OWN),
};

export function setup() {
  const sale = openSale(server, USERS, LEAD_S * 1000);
  if (!sale.price) stop(`${sale.name} is free: put one on sale with --price 8000 --pay-within 5s.`);
  if (sale.stock !== PAYERS) stop(`${sale.name} has a stock of ${sale.stock}, and ${PAYERS} buyers pay: set PAYERS=${sale.stock}.`);
  return sale;
}

const send = (method, sale, path, token, body = null) => {
  const headers = { ...bearer(token).headers, 'Content-Type': 'application/json' };
  return http.request(method, sale.url + path, body, { headers, tags: { name: 'pay' }, timeout: '30s' });
};

/** The answer, once the server has room: a payment has a name, so who asks again pays once. */
function insist(ask) {
  let answer = ask();
  for (let tries = 1; answer.status === 503 && tries < PAY_TRIES; tries += 1) {
    sleep(1);
    answer = ask();
  }
  return answer;
}

function statusOf(sale, token, order) {
  const answer = send('GET', sale, `/api/orders/${order}`, token);
  return answer.status === 200 ? answer.json('status') : `answered ${answer.status}`;
}

/** Pays for the order; whether that was in time. */
function pay(sale, token, order) {
  const begin = () => send('POST', sale, `/api/orders/${order}/payments`, token);
  const begun = insist(begin);
  if (begun.status === 409 && begun.json('order_status') === 'cancelled') return false;
  if (begun.status !== 201) {
    wrongAnswers.add(1);
    return true;
  }
  const press = ['POST', `${sale.url}/api/sandbox/payments/${begun.json('payment_id')}`, '{"action":"pay"}', {
    headers: { 'Content-Type': 'application/json' }, tags: { name: 'pay' }, timeout: '30s',
  }];
  // The button is pressed twice at once, and again where the server had no room.
  const pressed = http.batch([press, press]).map((answer) => (answer.status === 503 ? insist(() => http.request(...press)) : answer));
  wrongAnswers.add(pressed.filter(({ status }) => status !== 204).length);
  if (!pressed.some(({ status }) => status === 204)) return true;
  paid.add(1);
  if (statusOf(sale, token, order) !== 'paid') withoutOrder.add(1);
  if (begin().status !== 409) payableAgain.add(1);
  return true;
}

/** Waits until the order, which nobody pays, is cancelled. */
function watchExpire(sale, token, order) {
  const until = Date.now() + sale.payWithinS * 1000 + EXPIRED_AFTER_MS;
  while (statusOf(sale, token, order) !== 'cancelled') {
    if (Date.now() >= until) {
      notExpired.add(1);
      return;
    }
    sleep(0.5);
  }
  expired.add(1);
  orderEnded();
}

export default function (sale) {
  const number = exec.scenario.iterationInTest;
  const token = tokens[number];
  // Spread over all, so that those who pay and those who do not come side by side.
  const pays = Math.floor(((number + 1) * PAYERS) / USERS) > Math.floor((number * PAYERS) / USERS);
  waitForBegin(sale, 2);
  const until = Date.now() + PATIENCE_MS;
  for (;;) {
    const [{ order }] = buy(server, sale, token, 1, EXPECTED);
    if (order && pays && pay(sale, token, order)) return;
    if (order) watchExpire(sale, token, order);
    if (!pays) return;
    if (Date.now() >= until) {
      notServed.add(1);
      return;
    }
    if (!order) sleep(1);
  }
}

export function teardown(sale) {
  closeSale(server, sale);
}

export function handleSummary(data) {
  return report(data, 'pay', `${USERS} users at once, ${PAYERS} of whom pay`, OWN);
}
