// Which HTTP the server speaks: that of `seckill serve` or, with DIALECT=hmdp, that of hm-dianping, the
// course application, which `seckill play` speaks, too. No script of its own.

import { ask, baseUrl, demandAnswer, production, stop, text } from './seckill.js';

/** What the application says, in each wording that its copies have, as the code that we count it by. */
const CODE_OF = {
  库存不足: 'sold_out',
  禁止重复下单: 'already_bought',
  一人一单: 'already_bought',
  用户已经购买过一次: 'already_bought',
  不允许重复下单: 'order_in_progress',
  秒杀尚未开始: 'sale_not_started',
  秒杀已经结束: 'sale_ended',
  秒杀已暂停: 'sale_paused',
  优惠券不存在: 'voucher_not_found',
};
/** What only a status tells. */
const CODE_OF_STATUS = { 401: 'unauthenticated', 403: 'forbidden', 429: 'too_many_requests', 500: 'internal_error', 503: 'unavailable' };

/** The server that DIALECT names; see `production` for what it can do. */
export function chosenServer(tokens) {
  const dialect = text('DIALECT', 'seckill');
  if (dialect === 'seckill') return production(tokens);
  if (dialect !== 'hmdp') stop(`DIALECT="${dialect}" is neither seckill nor hmdp.`);
  return hmdp(tokens);
}

/** The token as the application takes it: without `Bearer`. */
function bare(token) {
  return { headers: { authorization: token } };
}

function read(response) {
  if (response.status === 0) return { code: 'no_answer' };
  if (response.status !== 200) return { code: CODE_OF_STATUS[response.status] || 'unknown_answer' };
  let document;
  try {
    document = response.json() || {};
  } catch (_) {
    return { code: 'unknown_answer' };
  }
  // From the text: a number of JavaScript would lose the last digits of an order's.
  const [, order] = /"data"\s*:\s*"?(\d+)/.exec(response.body) || [];
  if (document.success === true) return order ? { code: 'ordered', order } : { code: 'unknown_answer' };
  const said = String(document.errorMsg || '').replace(/[!！。]+$/, '');
  return { code: CODE_OF[said] || 'unknown_answer' };
}

function hmdp(tokens) {
  const url = baseUrl('http://127.0.0.1:8080');
  const id = text('VOUCHER', '');
  if (!/^\d*$/.test(id)) stop(`VOUCHER="${id}" is not the number of a voucher.`);
  const list = `${url}/voucher/list/1`;

  function find(wanted) {
    const { status, document } = demandAnswer(ask('GET', list), url, 'seckill play');
    if (status !== 200 || !Array.isArray(document.data)) stop(`${list} answered ${status}, and no vouchers.`);
    const sales = document.data.filter(({ stock }) => typeof stock === 'number');
    return wanted ? sales.find((one) => String(one.id) === wanted) : sales.reduce((newest, one) => (newest && newest.id > one.id ? newest : one), null);
  }

  return {
    carry: bare,
    read,
    open() {
      const voucher = find(id);
      if (!voucher) stop(`there is no voucher ${id ? `${id} ` : ''}at ${list}: POST /voucher/seckill puts one on sale.`);
      const me = ask('GET', `${url}/user/me`, null, bare(tokens[0]));
      if (me.status !== 200 || !me.document.success) {
        stop(`${url} does not take the first token (status ${me.status}): mint them with the same data directory that the server has.`);
      }
      return {
        name: `voucher ${voucher.id} (${voucher.title}) at ${url}`,
        voucher: String(voucher.id),
        stock: voucher.stock,
        url,
        buy: `${url}/voucher-order/seckill/${voucher.id}`,
        hello: list,
      };
    },
    close(sale) {
      const voucher = find(sale.voucher);
      return voucher ? { stock: voucher.stock } : null;
    },
    /** The application does not list a user's orders: nothing is known of them. */
    ordersOf: null,
  };
}
