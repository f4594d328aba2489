"use strict";
// Goes through the schedules that were recorded on this page. Each box has a tree: what two schedules begin
// with is there once. A step is chosen among those that some schedule took next.
const element = (name, text, className) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
};

const words = (step) => {
  const [kind, actor] = step.split(":");
  if (kind === "L") return "The lease ends";
  if (kind === "K") return `Kill the process of ${actor}`;
  if (kind === "P") return `Stop the process of ${actor} past its lease`;
  return `${step[0]} goes on`;
};

const count = (node) => (node.next ?? []).reduce((sum, child) => sum + count(child), 0) || 1;

for (const box of document.querySelectorAll(".replay")) {
  const part = (name) => box.querySelector(name);
  const tree = JSON.parse(part("script").textContent);
  let path = [tree];

  const show = () => {
    const here = path.at(-1);
    const lines = path.flatMap((node) => node.lines);
    const next = here.next ?? [];
    const actors = [...new Set(lines.map((line) => line.actor).filter(Boolean))].sort();

    const head = element("tr");
    head.append(element("th", "", "step"));
    for (const actor of actors) {
      const lane = element("th");
      lane.append(element("span", actor, "actor"));
      head.append(lane);
    }
    part("thead").replaceChildren(head);
    part("tbody").replaceChildren(
      ...lines.map((line, place) => {
        const row = element("tr");
        row.append(element("th", place + 1, "step"));
        if (!line.actor) {
          const cell = element("td", line.text, "lab");
          cell.colSpan = Math.max(actors.length, 1);
          row.append(cell);
          return row;
        }
        for (const actor of actors) {
          const cell = element("td", undefined, "lane");
          if (actor === line.actor) cell.append(element("span", line.text, `event ${line.kind}`));
          row.append(cell);
        }
        return row;
      }),
    );

    part(".replay-next").replaceChildren(
      ...next.map((child) => {
        const button = element("button", words(child.step));
        button.type = "button";
        button.addEventListener("click", () => go([...path, child], child.step));
        return button;
      }),
    );
    part(".replay-schedule").textContent = path
      .slice(1)
      .map((node) => node.step)
      .join(" ");
    part(".replay-undo").disabled = part(".replay-again").disabled = path.length === 1;
    const verdict = part(".replay-verdict");
    const broken = (here.broken ?? []).map((it) => `${it.invariant} breaks: ${it.witness}`);
    verdict.className = "replay-verdict";
    if (next.length > 0) {
      const left = count(here);
      verdict.textContent = `${left} ${left === 1 ? "schedule begins" : "schedules begin"} so.`;
    } else if (here.unknown) {
      verdict.textContent = `Nothing is known of this schedule: ${here.unknown}`;
    } else if (broken.length > 0) {
      verdict.classList.add("verdict", "wrong");
      verdict.textContent = broken.join("; ");
    } else {
      verdict.classList.add("verdict", "right");
      verdict.textContent = "Every promise was kept.";
    }
  };

  // A new row of buttons takes the focus along, so that the keyboard stays where it was.
  const go = (to, chosen) => {
    path = to;
    show();
    const buttons = [...part(".replay-next").children];
    const same = buttons.find((button) => chosen && button.textContent === words(chosen));
    (same ?? buttons[0] ?? part(".replay-undo")).focus();
  };

  part(".replay-undo").addEventListener("click", () => go(path.slice(0, -1)));
  part(".replay-again").addEventListener("click", () => go([tree]));
  show();
  box.hidden = false;
}
