// Paying in an app: a link for whoever has it on this device, and a QR code for whoever has it on another one.

import { money, setText } from "./format.js";
import { onOrders } from "./my_orders.js";
import { element, texts } from "./page.js";
import { qrCodeOf } from "./pay_url.js";
import { fill } from "./words.js";

// A reader needs them, also on a dark page.
const [BLACK, WHITE] = [
  [0, 0, 0],
  [255, 255, 255],
];
const PIXELS_PER_MODULE = 8;

const title = element("h2", { id: "app-payment-title" });
const time = element("p", { class: "pay-within", role: "timer" });
const code = element("div", { class: "pay-code" });
const link = element("a", { class: "primary" }, texts.open_app);
const close = element("button", { class: "quiet", type: "button" }, texts.close);
const dialog = element(
  "dialog",
  { id: "app-payment", "aria-labelledby": title.id },
  title,
  time,
  element("p", {}, texts.pay_in_app_about),
  code,
  link,
  close,
);
document.body.append(dialog);
let shown = null; // the order

// The code has its place before it comes.
async function draw(order, url) {
  code.replaceChildren();
  code.hidden = false;
  const modules = await qrCodeOf(url);
  if (shown !== order) return;
  code.hidden = modules === null;
  const src = modules?.toDataURL({ on: BLACK, off: WHITE, scale: PIXELS_PER_MODULE });
  if (src) code.append(element("img", { src, alt: texts.pay_code }));
}

// Shows where the order is paid, until it is paid, or not to be paid any more, or the buyer closes it.
// `left`: how much time there is.
export function payInApp(order, url, left) {
  shown = order;
  sayInApp(order, left);
  setText(title, fill(texts.pay_in_app, { amount: money(order.amount) }));
  link.href = url;
  draw(order, url);
  if (!dialog.open) dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", resolve, { once: true }));
}

// How much time there is to pay the order, now.
export function sayInApp(order, left) {
  if (order.order_id === shown?.order_id) setText(time, left);
}

close.addEventListener("click", () => dialog.close());

onOrders({
  learnt(order) {
    if (order.order_id === shown?.order_id && order.status !== "unpaid") dialog.close();
  },
  forgot: () => dialog.close(),
});
