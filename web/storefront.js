import { api, byId, element } from "./page.js";

const vouchers = await api("GET", "/api/vouchers");
for (const voucher of vouchers.body ?? []) {
  byId("vouchers").append(element("li", { class: "voucher" }, voucher.title));
}
