// Changing the sale that is watched: its fields, its stock, and whether it is paused.

import * as board from "./board.js";
import * as form from "./board_form.js";
import * as login from "./board_login.js";
import { byId, texts } from "./page.js";
import { fill } from "./words.js";

const details = byId("edit-sale");
const pause = byId("pause");
let voucher = null;
// What the fields held when they were filled.
let before = null;

board.onSale((read) => {
  if (read?.id !== voucher?.id) {
    details.open = false;
    byId("pause-state").textContent = "";
  }
  voucher = read;
  details.hidden = !voucher;
  // Before and after its time a sale sells nothing, and does not say whether it is paused.
  pause.hidden = !["on_sale", "draw_open", "line_open", "sold_out", "paused"].includes(voucher?.status);
  const text = voucher?.status === "paused" ? texts.resume : texts.pause;
  if (pause.textContent !== text) pause.textContent = text;
});

async function change(body) {
  const changed = await board.ask("PATCH", `/api/vouchers/${voucher.id}`, body);
  if (changed.ok && changed.body.id === board.chosenSale()) board.showSale(changed.body);
  return changed;
}

details.addEventListener("toggle", () => {
  byId("edit-state").textContent = "";
  if (details.open) before = form.fillEdited(voucher);
});

byId("edit-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const [button, state] = [byId("save-sale"), byId("edit-state")];
  state.textContent = "";
  const edited = form.editedSale(before);
  if (!edited || button.disabled) return;
  button.disabled = true;
  const of = voucher.id;
  const changed = Object.keys(edited).length > 0 ? await change(edited) : null;
  button.disabled = false;
  // Another sale was chosen meanwhile: the form is that one's.
  if (of !== voucher?.id) return;
  if (changed?.body?.code === "stock_is_sold") {
    const sold = voucher.initial_stock - voucher.stock;
    return form.show(["edit-stock"], [["edit-stock", fill(texts.stock_is_sold, { sold })]]);
  }
  state.classList.toggle("broken", Boolean(changed) && !changed.ok);
  state.textContent = !changed ? texts.nothing_changed : changed.ok ? texts.saved : login.refusal(changed);
  if (changed?.ok) before = form.fillEdited(changed.body);
});

pause.addEventListener("click", async () => {
  pause.disabled = true;
  const of = voucher.id;
  const changed = await change({ paused: voucher.status !== "paused" });
  pause.disabled = false;
  if (of !== voucher?.id) return;
  byId("pause-state").textContent = changed.ok ? "" : login.refusal(changed);
  pause.focus();
});
