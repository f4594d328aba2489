// Everyone at once: each user comes once (or ATTEMPTS times in the same moment) for a stock that
// is too small.
//
//   seckill voucher add --title rush --stock 100
//   seckill tokens --users 1000 --out tokens.csv
//   k6 run loadtest/k6/rush.js
//
//   BASE_URL       the server (default http://127.0.0.1:8080)
//   DIALECT        what it speaks: seckill, or hmdp as hm-dianping does (default seckill)
//   VOUCHER        what is bought (default: the newest voucher)
//   TOKENS         the file of `seckill tokens` (default tokens.csv)
//   USERS          how many come (default 1000)
//   ATTEMPTS       clicks of each, all at once (default 1)
//   LEAD_S         seconds in which all connect before the sale begins (default 2)
//   EXPECT_ORDERS  exactly so many orders, or the run fails (default: only the checks below)
//   REPORT         the page that is written (default k6-rush.html; `none` for none)
//
// Exit status 0: every check held. 99: one did not (an oversell among them). 107, 108: could not
// run. The users must not hold the voucher yet, and nobody else may buy it meanwhile.

import exec from 'k6/execution';
import { TREND_STATS, buy, closeSale, openSale, readTokens, thresholds, waitForBegin, whole } from './seckill.js';
import { chosenServer } from './dialect.js';
import { report } from './report.js';

const USERS = whole('USERS', 1000);
const ATTEMPTS = whole('ATTEMPTS', 1);
const LEAD_S = whole('LEAD_S', 2, 0);
const EXPECTED = ['ordered', 'sold_out', 'already_bought', 'order_in_progress'];
const tokens = readTokens(USERS);
const server = chosenServer(tokens);

const OWN = { purchases: [`count==${USERS * ATTEMPTS}`, 'attempts made and answered'] };

export const options = {
  scenarios: {
    rush: { executor: 'per-vu-iterations', vus: USERS, iterations: 1, maxDuration: '2m' },
  },
  batch: ATTEMPTS,
  batchPerHost: ATTEMPTS,
  summaryTrendStats: TREND_STATS,
  thresholds: thresholds([
    'orders_beyond_stock',
    'double_sales',
    'unbalanced',
    'left_unsold',
    'sold_out_too_early',
    'unexpected',
    'books_read',
  ], OWN),
};

export function setup() {
  return openSale(server, USERS, LEAD_S * 1000);
}

export default function (sale) {
  waitForBegin(sale, ATTEMPTS);
  buy(server, sale, tokens[exec.scenario.iterationInTest], ATTEMPTS, EXPECTED);
}

export function teardown(sale) {
  closeSale(server, sale);
}

export function handleSummary(data) {
  return report(data, 'rush', `${USERS} users at once, ${ATTEMPTS} attempt(s) each`, OWN);
}
