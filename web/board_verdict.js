// Verdicts as tables: each promise, and whether it was kept.

import { promisesOf } from "./board_promises.js";
import { element, texts } from "./page.js";

function table(caption, holds, rows) {
  const cells = rows.map(([promise, isKept, figures]) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, texts[`promise_${promise}`] ?? promise),
      element("td", { class: isKept ? "kept" : "broken" }, isKept ? `✓ ${texts.kept}` : `✗ ${figures}`),
    ),
  );
  return element(
    "table",
    { class: "verdict" },
    element("caption", { class: holds ? "kept" : "broken" }, caption),
    element("tbody", {}, ...cells),
  );
}

export function ofAudit(audit) {
  return table(audit.holds ? texts.holds : texts.broken, audit.holds, promisesOf(audit, texts));
}
