// A rung of the ladder, before everybody's eyes: the crowd of rush.js against `seckill lab serve`.
// r01 oversells, r04 does not; with USERS=20 CLICKS=20 r05a sells twice to one user, r18a does not.
//
//   seckill lab serve
//   k6 run -e RUNG=r01 loadtest/k6/lab.js
//   k6 run -e RUNG=r04 loadtest/k6/lab.js
//
//   BASE_URL  the lab (default http://127.0.0.1:8081)
//   RUNG      the rung, by its name or the beginning of it (default r01)
//   STOCK     of the voucher, which is put on sale for this run (default 100)
//   USERS     how many come (default 500)
//   CLICKS    of each, all at once (default 1)
//   LEAD_S, EXPECT_ORDERS   as in rush.js
//   REPORT    the page that is written (default k6-lab.html; `none` for none)
//
// Exit status 0: the rung kept what is checked. 99: it did not: r01 must end so. 107, 108: could
// not run. There are no tokens in the lab: a user's number is his token.

import exec from 'k6/execution';
import { TREND_STATS, buy, closeSale, lab, openSale, text, thresholds, waitForBegin, whole } from './seckill.js';
import { report } from './report.js';

const RUNG = text('RUNG', 'r01');
const STOCK = whole('STOCK', 100, 0);
const USERS = whole('USERS', 500);
const CLICKS = whole('CLICKS', 1);
const LEAD_S = whole('LEAD_S', 2, 0);
const EXPECTED = ['ordered', 'sold_out', 'already_bought', 'order_in_progress'];
const server = lab(RUNG, STOCK);

const OWN = { purchases: [`count==${USERS * CLICKS}`, 'attempts made and answered'] };

export const options = {
  scenarios: {
    lab: { executor: 'per-vu-iterations', vus: USERS, iterations: 1, maxDuration: '2m' },
  },
  batch: CLICKS,
  batchPerHost: CLICKS,
  summaryTrendStats: TREND_STATS,
  thresholds: thresholds([
    'orders_beyond_stock',
    'double_sales',
    'unbalanced',
    'left_unsold',
    'sold_out_too_early',
    'unexpected',
    'audit_oversold',
    'audit_duplicates',
    'audit_lost',
    'books_read',
  ], OWN),
};

export function setup() {
  return openSale(server, USERS, LEAD_S * 1000);
}

export default function (sale) {
  waitForBegin(sale, CLICKS);
  buy(server, sale, String(exec.scenario.iterationInTest + 1), CLICKS, EXPECTED);
}

export function teardown(sale) {
  closeSale(server, sale);
}

export function handleSummary(data) {
  return report(data, 'lab', `${USERS} users at once, ${CLICKS} click(s) each`, OWN);
}
