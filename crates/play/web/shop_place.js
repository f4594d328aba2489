// Tells the buyer of a demonstration how early an order was.

import { language } from "./page.js";
import { apiAsUser } from "./session.js";

document.addEventListener("bought", async ({ target, detail: order }) => {
  const answer = await apiAsUser("GET", `/api/stage/place?order=${order.order_id}`);
  const message = target.querySelector(".message");
  // Another message may have taken its place meanwhile.
  if (answer.ok && message.textContent.includes(order.order_id))
    message.append(language === "en" ? `. ${answer.body.text}` : `。${answer.body.text}`);
});
