// The rung's file with the places of all actors in it, and what the neighbours change.

import { byId, element, texts } from "./page.js";
import { fill } from "./words.js";

// `text` with what stands between backquotes as code.
export function withCode(text) {
  const parts = text.split("`");
  return parts.map((part, nth) => (nth % 2 ? element("code", {}, part) : part));
}

export function showFile(file) {
  byId("source-title").textContent = `crates/ladder/src/${file.id}.rs`;
  const token = ({ class: kind, text }) => (kind ? element("span", { class: kind }, text) : text);
  byId("source").replaceChildren(
    ...file.lines.map((line) =>
      element("li", {}, element("span", { class: "marks" }), element("code", {}, ...line.map(token))),
    ),
  );
  const begins = file.lines.findIndex((line) => line.some(({ text }) => text === "buy"));
  byId("source").scrollTop = byId("source").children[begins]?.offsetTop ?? 0;
  const label = (at) => texts.rungs[at]?.label;
  const at = texts.rungs.findIndex((rung) => rung.id === file.id);
  showDiff("diff-previous", texts.diff_previous, label(at - 1), file.from_previous);
  showDiff("diff-next", texts.diff_next, label(at + 1), file.to_next);
}

function showDiff(name, title, rung, lines) {
  const details = byId(name);
  details.hidden = !lines.length;
  details.querySelector("summary").textContent = fill(title, { rung });
  details.querySelector("pre")?.remove();
  const changed = (line) => line.tag !== "same";
  const close = (nth) => lines.slice(Math.max(0, nth - 2), nth + 3).some(changed);
  // One line alone takes no less room when it is hidden.
  const near = (nth) => close(nth) || (close(nth - 1) && close(nth + 1));
  const shown = element("pre", { tabIndex: 0 });
  let hidden = 0;
  const gap = () => {
    if (hidden) {
      const count = fill(texts.lines_hidden, { count: hidden });
      shown.append(element("span", { class: "gap" }, `⋯ ${count}`), "\n");
    }
    hidden = 0;
  };
  const word = (part) => (part.changed ? element("mark", {}, part.text) : part.text);
  for (const [nth, line] of lines.entries()) {
    if (!near(nth)) {
      hidden += 1;
      continue;
    }
    gap();
    const sign = { same: " ", added: "+", removed: "-" }[line.tag];
    shown.append(element("span", { class: line.tag }, `${sign} `, ...line.parts.map(word)), "\n");
  }
  gap();
  details.append(shown);
}

// Shows where the actors stand. All of them are brought into view where there is room for that, else the one
// that moved last.
export function mark(actors, last) {
  const box = byId("source");
  const lines = box.children;
  for (const line of lines) {
    line.classList.remove("at-a", "at-b", "at-c");
    line.firstChild.replaceChildren();
  }
  const places = [];
  for (const actor of actors) {
    const line = lines[actor.line - 1];
    if (!line) continue;
    const name = (actor.name === "T" ? "C" : actor.name).toLowerCase();
    line.classList.add(`at-${name}`);
    line.firstChild.append(element("b", { class: `mark-${name}` }, actor.name));
    places.push({ name: actor.name, top: line.offsetTop, bottom: line.offsetTop + line.offsetHeight });
  }
  if (!places.length) return;
  const margin = 24;
  const range = (some) => [Math.min(...some.map((it) => it.top)), Math.max(...some.map((it) => it.bottom))];
  const fits = ([top, bottom]) => bottom - top <= box.clientHeight - 2 * margin;
  const buyers = places.filter((place) => place.name !== "C");
  const moved = places.filter((place) => place.name === last);
  // The least wanted last: all, both buyers, whoever moved.
  const wanted = [places, buyers, moved.length ? moved : places.slice(0, 1)].find(
    (some) => some.length && fits(range(some)),
  );
  const [top, bottom] = range(wanted ?? places.slice(0, 1));
  if (top < box.scrollTop + margin || bottom > box.scrollTop + box.clientHeight - margin) {
    box.scrollTop = (top + bottom - box.clientHeight) / 2;
  }
}
