// Tells the buyer of a demonstration how early an order was, and shows a new sale at once: a show begins in a moment.

import { byId } from "./page.js";
import { apiAsUser } from "./session.js";

document.addEventListener("bought", async ({ target, detail: order }) => {
  const answer = await apiAsUser("GET", `/api/stage/place?voucher=${order.voucher_id}`);
  const message = target.querySelector(".message");
  // Another message may have taken its place meanwhile.
  if (answer.ok && message.textContent.includes(order.order_id))
    message.append(document.documentElement.lang === "en" ? `. ${answer.body.text}` : `。${answer.body.text}`);
});

const news = byId("new-sales");
const showAtOnce = () => news.classList.contains("waits") && news.click();
new MutationObserver(showAtOnce).observe(news, { attributes: true, attributeFilter: ["class"] });
showAtOnce();
