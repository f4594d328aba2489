// Verdicts as tables: each promise, and whether it was kept.

import { element, texts } from "./page.js";

const IN_THE_DATABASE = ["no_oversell", "one_per_user", "no_undersell", "orphans", "sale_window"];

// The names of the promises that an audit found broken.
function broken(audit) {
  return audit.violations.map((violation) => violation.split(":")[0]);
}

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

function sentence(holds) {
  return holds ? texts.holds : texts.broken;
}

function rowsOf(audit) {
  const found = broken(audit);
  // A promise that this page does not know is shown, too.
  const names = [...new Set([...IN_THE_DATABASE, ...found])];
  const words = (name) =>
    audit.violations
      .filter((violation) => violation.startsWith(`${name}:`))
      .map((violation) => violation.slice(name.length + 2))
      .join("; ");
  return names.map((name) => [name, !found.includes(name), words(name)]);
}

export function ofAudit(audit) {
  return table(sentence(audit.holds), audit.holds, rowsOf(audit));
}
