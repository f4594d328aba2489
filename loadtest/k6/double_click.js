// The impatient: each user clicks CLICKS times in the same moment, and gets one order. The other
// clicks hear `order_in_progress` or `already_bought`.
//
//   seckill voucher add --title clicks --stock 100
//   seckill tokens --users 10 --out tokens.csv
//   k6 run loadtest/k6/double_click.js
//
//   BASE_URL, DIALECT, VOUCHER, TOKENS, EXPECT_ORDERS   as in rush.js
//   USERS    how many are impatient (default 10); the stock must be enough for them
//   CLICKS   of each (default 50)
//   LEAD_S   seconds in which all connect before they click (default 1)
//   REPORT   the page that is written (default k6-double_click.html; `none` for none)
//
// Exit status 0: every user holds exactly one order, says the API and said every answer. 99: not
// so. 107, 108: could not run.

import exec from 'k6/execution';
import { Counter } from 'k6/metrics';
import { TREND_STATS, buy, closeSale, openSale, readTokens, stop, thresholds, waitForBegin, whole } from './seckill.js';
import { chosenServer } from './dialect.js';
import { report } from './report.js';

const USERS = whole('USERS', 10);
const CLICKS = whole('CLICKS', 50, 2);
const LEAD_S = whole('LEAD_S', 1, 0);
const EXPECTED = ['ordered', 'already_bought', 'order_in_progress'];
const tokens = readTokens(USERS);
const server = chosenServer(tokens);

const wrongOrder = new Counter('wrong_order_named');
const notOne = new Counter('users_not_with_one_order');

// What only a server that lists and names orders can be asked.
const OF_ORDERS = {
  users_not_with_one_order: ['count==0', 'users of whom GET /api/orders does not show exactly one order'],
  wrong_order_named: ['count==0', '`already_bought` with another order than the one confirmed'],
};
const OWN = {
  ...(server.ordersOf ? OF_ORDERS : {}),
  ordered: [`count==${USERS}`, 'orders confirmed: one a user'],
  purchases: [`count==${USERS * CLICKS}`, 'each click was answered'],
};

export const options = {
  scenarios: {
    clicks: { executor: 'per-vu-iterations', vus: USERS, iterations: 1, maxDuration: '2m' },
  },
  batch: CLICKS,
  batchPerHost: CLICKS,
  summaryTrendStats: TREND_STATS,
  thresholds: thresholds(['double_sales', 'orders_beyond_stock', 'unbalanced', 'unexpected', 'books_read'], OWN),
};

export function setup() {
  const sale = openSale(server, USERS, LEAD_S * 1000);
  if (sale.stock < USERS) {
    stop(`${sale.name} has ${sale.stock} left, too few for ${USERS} users: set USERS, or put another voucher on sale.`);
  }
  for (let user = 0; server.ordersOf && user < USERS; user += 1) {
    const orders = server.ordersOf(sale, tokens[user]);
    if (orders && orders.length > 0) {
      stop(`user ${orders[0].user_id} holds ${sale.name} already: put another voucher on sale.`);
    }
  }
  return { ...sale, begin: Date.now() + LEAD_S * 1000 };
}

export default function (sale) {
  const token = tokens[exec.scenario.iterationInTest];
  waitForBegin(sale, CLICKS);
  const answers = buy(server, sale, token, CLICKS, EXPECTED);
  const placed = answers.filter(({ code }) => code === 'ordered').map(({ order }) => order);
  const named = answers.filter(({ code }) => code === 'already_bought').map(({ order }) => order);
  if (!server.ordersOf) return;
  wrongOrder.add(named.filter((order) => placed.indexOf(order) < 0).length);
  const orders = server.ordersOf(sale, token);
  if (!orders || orders.length !== 1) notOne.add(1);
}

export function teardown(sale) {
  closeSale(server, sale);
}

export function handleSummary(data) {
  return report(data, 'double_click', `${USERS} users, ${CLICKS} clicks each at once`, OWN);
}
