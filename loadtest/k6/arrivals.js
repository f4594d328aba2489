// Open arrivals: buyers come at a fixed rate, whether the server keeps up or not, each of them for the
// first time. `seckill ceiling` runs it beside a crowd of wrk: what does it cost those who just come by?
//
//   k6 run -q -e URL=http://127.0.0.1:8080/api/vouchers/ID/orders -e TOKENS=tokens.csv -e RATE=100 \
//     -e SECONDS=10 --log-format raw --log-output file=arrivals.txt loadtest/k6/arrivals.js
//
// Writes one line for each: when it came (milliseconds since 1970), how long it took (milliseconds), the
// status (0: no answer). Whoever finds no VU free has no line.

import exec from 'k6/execution';
import http from 'k6/http';
import { SharedArray } from 'k6/data';

const rate = Number(__ENV.RATE);
const tokens = new SharedArray('tokens', () =>
  open(__ENV.TOKENS).split('\n').slice(1).filter((line) => line).map((line) => line.split(',')[1]));

export const options = {
  discardResponseBodies: true,
  scenarios: {
    arrivals: {
      executor: 'constant-arrival-rate',
      rate,
      duration: `${__ENV.SECONDS}s`,
      // Enough for an answer that takes three seconds.
      preAllocatedVUs: rate * 3,
      gracefulStop: '10s',
    },
  },
};

export default function () {
  const token = tokens[exec.scenario.iterationInTest];
  const came = Date.now();
  const { status } = http.post(__ENV.URL, null, { headers: { Authorization: `Bearer ${token}` }, timeout: '30s' });
  console.log(`${came} ${Date.now() - came} ${status}`);
}

// No summary: the flag for it has another name in each major version of k6.
export function handleSummary() {
  return {};
}
