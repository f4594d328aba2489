// The dialog that asks once more before something is done.

import { setText } from "./format.js";
import { byId } from "./page.js";

const dialog = byId("question");

export const isAsking = () => dialog.open;

// Whether somebody is sure. All four are texts; `yes` and `no` those of the buttons.
export function isSure({ title, about, yes, no }) {
  for (const [part, text] of Object.entries({ title, about, yes, no })) setText(byId(`question-${part}`), text);
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}
