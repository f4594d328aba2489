// The end of a run: on the terminal, and as one page that opens without a network.

import { CHECKS, CODES, NO_ANSWERS, text } from './seckill.js';

/**
 * For handleSummary. `own` are the script's own thresholds with their meanings, `stairs` the rates
 * of a staircase and how long each was held.
 */
export function report(data, script, about, own = {}, stairs = null) {
  // Nothing was sold: what stopped it has been said.
  if (!data.setup_data) return {};
  const found = {
    script,
    about,
    sale: data.setup_data,
    answers: answers(data),
    checks: checks(data, own),
    latency: (data.metrics.purchase_ms || {}).values || {},
    steps: stairs ? steps(data, stairs) : [],
    dropped: count(data, 'dropped_iterations'),
    stockLeft: data.metrics.stock_after ? data.metrics.stock_after.values.value : null,
  };
  found.holds = found.checks.every(({ ok }) => ok);
  const page = text('REPORT', `k6-${script}.html`);
  const written = { stdout: onTerminal(found, page) };
  if (page !== 'none') written[page.startsWith('/') ? page : `${__ENV.PWD || '.'}/${page}`] = asPage(found);
  return written;
}

function count(data, metric) {
  return data.metrics[metric] ? data.metrics[metric].values.count : 0;
}

function answers(data) {
  return [...CODES, ...NO_ANSWERS].map((code) => ({ code, times: count(data, code) })).filter(({ times }) => times > 0);
}

function checks(data, own) {
  const found = [];
  for (const [name, metric] of Object.entries(data.metrics)) {
    for (const [threshold, { ok }] of Object.entries(metric.thresholds || {})) {
      const values = metric.values;
      const percentile = (/^(p\([\d.]+\))/.exec(threshold) || [])[1];
      const meaning = (own[name] || [])[1] || (CHECKS[name] || [])[1] || 'orders confirmed';
      found.push({ name, threshold, ok, value: percentile ? values[percentile] : values.count, meaning });
    }
  }
  return found.sort((a, b) => a.ok - b.ok || (a.name < b.name ? -1 : 1));
}

function steps(data, { rates, seconds }) {
  return rates.map((rate, at) => {
    const ms = (data.metrics[`step_${at + 1}_ms`] || {}).values || {};
    const started = count(data, `step_${at + 1}_started`);
    return {
      rate,
      answered: started / seconds,
      ordered: count(data, `step_${at + 1}_ordered`) / seconds,
      p50: ms.med || 0,
      p95: ms['p(95)'] || 0,
      p99: ms['p(99)'] || 0,
    };
  });
}

const ms = (value) => (value === undefined ? '-' : value.toFixed(value < 10 ? 2 : 0));

// --- On the terminal -------------------------------------------------------------------------

function onTerminal(found, page) {
  const { sale, latency } = found;
  const lines = ['', `k6 ${found.script}: ${sale.name}`, `  ${found.about}; stock ${sale.stock} before, ${found.stockLeft} after`];
  if (sale.idea) lines.push(`  ${sale.idea}`, `  keeps, as it claims: ${sale.keeps.join(', ') || 'nothing'}`);
  lines.push('');
  for (const { code, times } of found.answers) lines.push(`  ${code.padEnd(26)} ${String(times).padStart(10)}`);
  lines.push('', `  latency ms   p50 ${ms(latency.med)}   p95 ${ms(latency['p(95)'])}   p99 ${ms(latency['p(99)'])}   max ${ms(latency.max)}`);
  if (found.steps.length > 0) {
    lines.push('', '  offered/s  begun/s  orders/s    p50 ms    p95 ms    p99 ms');
    for (const step of found.steps) {
      const cells = [step.answered.toFixed(0).padStart(9), step.ordered.toFixed(0).padStart(10),
        ms(step.p50).padStart(10), ms(step.p95).padStart(10), ms(step.p99).padStart(10)];
      lines.push(`  ${String(step.rate).padStart(9)}${cells.join('')}`);
    }
    lines.push(`  dropped, because no VU was free: ${found.dropped}`);
  }
  lines.push('');
  for (const check of found.checks) {
    const value = String(Math.round(check.value * 100) / 100);
    lines.push(`  ${check.ok ? 'ok  ' : 'FAIL'} ${check.name.padEnd(24)} ${value.padStart(8)}  ${check.threshold.padEnd(12)}  ${check.meaning}`);
  }
  lines.push('', `  ${verdict(found)}`);
  if (page !== 'none') lines.push(`  ${page}`);
  return `${lines.join('\n')}\n\n`;
}

function verdict(found) {
  if (found.holds) return 'HOLDS: every check did.';
  return `FAILED: ${found.checks.filter(({ ok }) => !ok).map(({ name, value }) => `${name} ${Math.round(value * 100) / 100}`).join(', ')}.`;
}

// --- As a page -------------------------------------------------------------------------------

const escape = (value) => String(value).replace(/[&<>"]/g, (c) => ({ '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;' }[c]));
const row = (cells) => `<tr>${cells.map((cell) => `<td>${cell}</td>`).join('')}</tr>`;
const head = (cells) => `<tr>${cells.map((cell) => `<th>${cell}</th>`).join('')}</tr>`;

const STYLE = `
:root { color-scheme: light dark; --ink: #1c2024; --paper: #fff; --faint: #d9dde2; --good: #1a7f4b; --bad: #c62f2f; --bar: #3d7dd8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7ea; --paper: #16191d; --faint: #363c43; --good: #4cc38a; --bad: #ff7b72; --bar: #6aa5f5; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: 0; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.verdict { padding: .6rem 1rem; border-left: .4rem solid; font-weight: 600; overflow-wrap: anywhere; } .good { color: var(--good); } .bad { color: var(--bad); }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { padding: .25rem .8rem .25rem 0; text-align: left; border-bottom: 1px solid var(--faint); }
svg text { fill: var(--ink); font: 13px system-ui, sans-serif; } svg { max-width: 100%; height: auto; }`;

function asPage(found) {
  const { sale, latency } = found;
  const parts = [
    `<h1>k6 ${escape(found.script)}</h1><p>${escape(sale.name)}<br>${escape(found.about)}; stock ${sale.stock} before, ${found.stockLeft} after</p>`,
    sale.idea ? `<p>${escape(sale.idea)} Keeps, as it claims: ${escape(sale.keeps.join(', ') || 'nothing')}.</p>` : '',
    `<p class="verdict ${found.holds ? 'good' : 'bad'}">${escape(verdict(found))}</p>`,
    '<h2>What the buyers were told</h2>',
    bars(found.answers, sale.stock),
    '<h2>Checks</h2><div class="wide"><table>',
    head(['', 'check', 'found', 'threshold', 'meaning']),
    ...found.checks.map((check) => row([
      check.ok ? '<span class="good">holds</span>' : '<span class="bad">FAILS</span>',
      escape(check.name), Math.round(check.value * 100) / 100, escape(check.threshold), escape(check.meaning),
    ])),
    '</table></div><h2>Latency of a purchase, ms</h2><div class="wide"><table>',
    head(['p50', 'p90', 'p95', 'p99', 'longest', 'answers']),
    row([ms(latency.med), ms(latency['p(90)']), ms(latency['p(95)']), ms(latency['p(99)']), ms(latency.max), latency.count]),
    '</table></div>',
  ];
  if (found.steps.length > 0) {
    parts.push(
      '<h2>Rate by rate</h2>', chart(found.steps), '<div class="wide"><table>',
      head(['offered/s', 'begun/s', 'orders/s', 'p50 ms', 'p95 ms', 'p99 ms']),
      ...found.steps.map((step) => row([step.rate, step.answered.toFixed(0), step.ordered.toFixed(0), ms(step.p50), ms(step.p95), ms(step.p99)])),
      `</table></div><p>${found.dropped} purchases were dropped because no VU was free.</p>`,
    );
  }
  return `<!doctype html>\n<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>k6 ${escape(found.script)}: ${found.holds ? 'holds' : 'FAILED'}</title><style>${STYLE}</style>\n${parts.join('\n')}\n</html>\n`;
}

/** A bar for each answer; for orders a mark where the stock ends. */
function bars(answers, stock) {
  const most = Math.max(stock, ...answers.map(({ times }) => times), 1);
  const width = (times) => (times / most) * 420;
  const lines = answers.map(({ code, times }, at) => {
    const y = at * 28 + 4;
    const over = code === 'ordered' && times > stock;
    const mark = code === 'ordered'
      ? `<line x1="${190 + width(stock)}" x2="${190 + width(stock)}" y1="${y - 3}" y2="${y + 23}" stroke="var(--ink)" stroke-dasharray="3"/>`
      : '';
    return `<text x="180" y="${y + 15}" text-anchor="end">${code}</text>
<rect x="190" y="${y}" width="${width(times)}" height="20" fill="var(${over ? '--bad' : '--bar'})"/>${mark}
<text x="${Math.max(190 + width(times), code === 'ordered' ? 190 + width(stock) : 0) + 8}" y="${y + 15}">${times}${code === 'ordered' ? ` of ${stock}` : ''}</text>`;
  });
  return `<svg viewBox="0 0 720 ${answers.length * 28 + 4}" role="img" aria-label="answers by code">${lines.join('\n')}</svg>`;
}

/** Offered against begun, and the 99th percentile below it. */
function chart(steps) {
  const most = Math.max(...steps.map(({ rate }) => rate));
  const slowest = Math.max(...steps.map(({ p99 }) => p99), 1);
  const wide = 600 / steps.length;
  const columns = steps.map((step, at) => {
    const x = 60 + at * wide;
    const tall = (value) => (value / most) * 150;
    const below = (step.p99 / slowest) * 90;
    return `<rect x="${x}" y="${180 - tall(step.rate)}" width="${wide * 0.7}" height="${tall(step.rate)}" fill="none" stroke="var(--ink)" stroke-dasharray="3"/>
<rect x="${x}" y="${180 - tall(step.answered)}" width="${wide * 0.7}" height="${tall(step.answered)}" fill="var(--bar)"/>
<text x="${x}" y="${174 - tall(step.rate)}">${step.answered.toFixed(0)} of ${step.rate}/s</text>
<rect x="${x}" y="${310 - below}" width="${wide * 0.7}" height="${below}" fill="var(--bar)" opacity=".5"/>
<text x="${x}" y="${304 - below}">p99 ${ms(step.p99)} ms</text>`;
  });
  return `<svg viewBox="0 0 720 320" role="img" aria-label="offered and begun, and latency, rate by rate">${columns.join('\n')}</svg>`;
}
