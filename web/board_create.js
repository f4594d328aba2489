// Making a sale: once, however often the button is pressed, and whatever becomes of the answer.

import { api, sleep } from "./api.js";
import * as board from "./board.js";
import * as form from "./board_form.js";
import * as login from "./board_login.js";
import { byId, texts } from "./page.js";

// The list of sales is a second old at most.
const LIST_IS_NEW_AFTER_MS = 1_100;
const FORM = byId("sale-form");
// What a creation asked for whose answer was lost, and the newest sale before it; null: none was lost.
let lost = null;

async function newest() {
  const list = await api("GET", "/api/vouchers?limit=100");
  return list.ok ? list.body : null;
}

const isSame = (sale, voucher) =>
  ["title", "subtitle", "terms"].every((name) => sale[name] === voucher[name]) &&
  sale.stock === voucher.initial_stock &&
  ["price", "value"].every((name) => (sale[name] ?? 0) === (voucher[name] ?? 0)) &&
  (sale.pay_within_s === undefined || sale.pay_within_s === voucher.pay_within_s) &&
  Boolean(sale.line ?? sale.draw_time) === voucher.line &&
  Boolean(sale.draw_time) === Boolean(voucher.draw_time) &&
  (sale.draw_beacon ?? "") === voucher.draw_beacon &&
  ["begin_time", "end_time", "draw_time"].every(
    (name) => !sale[name] || Date.parse(sale[name]) === Date.parse(voucher[name]),
  );

// The sale that was made though its answer was lost: undefined when there is none, null when nobody can say.
async function made() {
  await sleep(LIST_IS_NEW_AFTER_MS);
  const list = await newest();
  if (!list) return null;
  return list.find((voucher) => BigInt(voucher.id) > BigInt(lost.before) && isSame(lost.sale, voucher));
}

// Creates `sale` unless it was created by the press before. Returns what there is to say.
async function create(sale) {
  if (lost) {
    // Whatever is in the form by now.
    const voucher = await made();
    if (voucher === null) return texts.create_unknown;
    if (voucher) return watch(voucher, isSame(sale, voucher) ? texts.created : texts.created_before);
  }
  const list = await newest();
  if (!list) return texts.no_connection;
  lost = { sale, before: list[0]?.id ?? "0" };
  const created = await board.ask("POST", "/api/vouchers", sale);
  if (created.ok) return watch(created.body, texts.created);
  if (created.status === 0) return texts.create_unknown;
  // An answer of 500 or more may be that of a database which has created it.
  if (created.status < 500) lost = null;
  return login.refusal(created);
}

function watch(voucher, words) {
  lost = null;
  board.watchNew(voucher);
  // The next sale is another one.
  if (words === texts.created) FORM.reset();
  return words;
}

// Whatever leaves the form as it is is no success.
function show(words) {
  const state = byId("sale-form-state");
  state.textContent = words;
  state.classList.toggle("broken", ![texts.creating, texts.created, texts.created_before].includes(words));
}

FORM.addEventListener("submit", async (event) => {
  event.preventDefault();
  const button = FORM.querySelector("[type=submit]");
  if (button.disabled) return;
  show("");
  const sale = form.newSale();
  if (!sale) return;
  button.disabled = true;
  show(texts.creating);
  try {
    show(await create(sale));
  } finally {
    button.disabled = false;
  }
});
