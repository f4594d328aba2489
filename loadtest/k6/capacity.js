// How much it takes: purchases arrive at a fixed rate, whether the server keeps up or not, each by
// a user who has not been there before.
//
//   seckill voucher add --title capacity --stock 20000
//   seckill tokens --users 20000 --out tokens.csv
//   k6 run -e RATE=1000 loadtest/k6/capacity.js              # one rate: must be kept
//   k6 run -e RATES=500,1000,2000 loadtest/k6/capacity.js    # rising: where does it end?
//
//   BASE_URL, DIALECT, VOUCHER, TOKENS, EXPECT_ORDERS   as in rush.js
//   RATE      purchases a second (default 500), for
//   DURATION  seconds (default 10)
//   RATES     instead of these two: a staircase, each rate for
//   STEP      seconds (default 5)
//   VUS       requests under way at most; who finds none free is dropped (default 300)
//   DROPPED   how many may be dropped (default: 0 at one rate, any number on a staircase)
//   P99_MS    99 % of the answers must arrive within so many milliseconds (default: no limit)
//   REPORT    the page that is written (default k6-capacity.html; `none` for none)
//
// With a stock as large as the number of purchases it measures confirmed orders; with a small one,
// refusals. Exit status 0: the checks held. 99: not so; purchases dropped at a constant rate mean
// that the server (or k6, on the same processors) could not keep up. 107, 108: could not run.

import exec from 'k6/execution';
import { Counter, Trend } from 'k6/metrics';
import { TREND_STATS, buy, closeSale, openSale, readTokens, stop, thresholds, whole, wholes } from './seckill.js';
import { chosenServer } from './dialect.js';
import { report } from './report.js';

const RISING = wholes('RATES');
const RATES = RISING.length > 0 ? RISING : [whole('RATE', 500)];
const STEP_S = RISING.length > 0 ? whole('STEP', 5) : whole('DURATION', 10);
const VUS = whole('VUS', 300);
const DROPPED = __ENV.DROPPED ? whole('DROPPED', 0, 0) : RISING.length > 0 ? null : 0;
const EXPECTED = ['ordered', 'sold_out'];
const PLANNED = RATES.reduce((sum, rate) => sum + rate * STEP_S, 0);
// One or two more arrive where a staircase has its edges.
const tokens = readTokens(PLANNED + 2 * RATES.length);
const server = chosenServer(tokens);

const started = RATES.map((_, step) => new Counter(`step_${step + 1}_started`));
const ordered = RATES.map((_, step) => new Counter(`step_${step + 1}_ordered`));
const times = RATES.map((_, step) => new Trend(`step_${step + 1}_ms`, true));

const OWN = {};
if (DROPPED !== null) OWN.dropped_iterations = [`count<=${DROPPED}`, 'purchases that found no free VU: the rate was not kept'];
if (__ENV.P99_MS) OWN.purchase_ms = [`p(99)<${whole('P99_MS', 0)}`, 'the slowest of 100 answers, in ms'];

const common = { timeUnit: '1s', preAllocatedVUs: VUS, maxVUs: VUS, gracefulStop: '30s' };
export const options = {
  scenarios: {
    capacity: RISING.length > 0
      ? {
        ...common,
        executor: 'ramping-arrival-rate',
        startRate: RATES[0],
        stages: RATES.flatMap((target) => [{ target, duration: '0s' }, { target, duration: `${STEP_S}s` }]),
      }
      : { ...common, executor: 'constant-arrival-rate', rate: RATES[0], duration: `${STEP_S}s` },
  },
  summaryTrendStats: TREND_STATS,
  thresholds: thresholds(['orders_beyond_stock', 'unbalanced', 'sold_out_too_early', 'unexpected', 'books_read'], OWN),
};

export function setup() {
  return openSale(server, PLANNED + 2 * RATES.length);
}

export default function (sale) {
  const number = exec.scenario.iterationInTest;
  if (number >= tokens.length) stop(`purchase ${number} has no token left.`);
  const step = Math.min(Math.floor((Date.now() - exec.scenario.startTime) / (STEP_S * 1000)), RATES.length - 1);
  const began = Date.now();
  const [{ code }] = buy(server, sale, tokens[number], 1, EXPECTED);
  started[step].add(1);
  times[step].add(Date.now() - began);
  if (code === 'ordered') ordered[step].add(1);
}

export function teardown(sale) {
  closeSale(server, sale);
}

export function handleSummary(data) {
  const about = `${RATES.join(', ')} purchases a second, ${STEP_S} s ${RISING.length > 0 ? 'each' : 'long'}, ${VUS} VUs`;
  return report(data, 'capacity', about, OWN, { rates: RATES, seconds: STEP_S });
}
