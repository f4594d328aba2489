// One seller on the stage: its number, its dots, its plot, its sentence.

import { setText } from "./format.js";
import { byId, element, language, texts } from "./page.js";
import { Dots } from "./stage_dots.js";
import { Plot } from "./stage_plot.js";
import { outcomeOf, rates } from "./stage_sentence.js";
import { fill, lastOf } from "./words.js";

const whole = new Intl.NumberFormat(language, { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat(language, { maximumSignificantDigits: 3 });
const seconds = new Intl.NumberFormat(language, { minimumFractionDigits: 1, maximumFractionDigits: 1 });

export const count = (number) => whole.format(number);
const SAYING = { texts, say: fill, count, seconds: (number) => seconds.format(number) };

export class Half {
  constructor(id) {
    this.node = byId(id);
    const find = (selector) => this.node.querySelector(selector);
    this.title = find("h2");
    this.number = find(".number");
    this.of = find(".of");
    this.countdown = find(".count");
    this.sentence = find(".sentence");
    this.steps = find(".steps");
    this.said = this.words = this.place = "";
    this.dots = new Dots(find(".dots"));
    this.plot = new Plot(find(".plot"));
    this.points = [];
  }

  // Before a show: what is to come.
  await({ users, stock }) {
    this.dots.begin(users);
    this.place = "";
    this.showLeft(stock, stock);
    this.points = [];
    this.plot.draw([]);
    this.isSelling = false;
    this.showFigures(null);
    this.judge(null);
  }

  // `half` is what the server says of it; `words` what is said while there is no verdict.
  show(half, crowd, words) {
    this.half = half;
    this.crowd = crowd;
    if (half.is_whole) {
      this.await(half);
      const rung = texts.rungs.find(({ id }) => id === half.rung);
      this.name = rung?.title ?? (crowd === "failover" ? texts.ours_two : texts.ours);
    }
    setText(this.title, half.killed_at === null ? this.name : texts.ours_killed);
    this.dots.addStars(half.others);
    for (const kind of ["refused", "bought", "wrong"]) this.dots.set(half[kind], kind);
    this.points.push(...half.points);
    const { verdict, stock, left } = half;
    this.showLeft(left, stock);
    this.isSelling = !verdict && half.done > 0 && half.done < half.total;
    this.showFigures(verdict);
    this.judge(verdict, words);
    // The other half may go on.
    if (verdict) this.settle();
  }

  showLeft(left, stock) {
    setText(this.number, count(left).replace("-", "−"));
    setText(this.of, fill(texts.left, { stock: count(stock) }));
    this.number.dataset.below = String(left < 0);
  }

  // Figures keep their peaks.
  showFigures(verdict) {
    for (const [at, name] of ["answers", "orders"].entries()) {
      const seen = rates(this.points, at);
      const now = this.isSelling ? (lastOf(seen) ?? 0) : 0;
      const peak = seen.reduce((most, rate) => Math.max(most, rate), 0);
      const place = this.node.querySelector(`[data-figure=${name}]`);
      place.replaceChildren(count(now), " ", element("small", {}, fill(texts.peak, { peak: count(peak) })));
    }
    for (const name of ["p50", "p99"]) {
      const ms = verdict?.[`${name}_ms`];
      setText(this.node.querySelector(`[data-figure=${name}]`), ms ? `${short.format(ms)} ms` : "–");
    }
  }

  judge(verdict, words = "") {
    if (verdict) this.node.dataset.holds = String(verdict.holds);
    else delete this.node.dataset.holds;
    this.said = verdict ? outcomeOf(this.half, this.crowd, SAYING) : "";
    this.words = words;
    this.say();
    // Into the game, with the steps that break the design.
    const rung = texts.rungs.find(({ id }) => id === this.half?.rung);
    this.steps.hidden = !verdict || !rung;
    if (!verdict || !rung) return;
    this.steps.href = rung.play;
    setText(this.steps, verdict.holds ? texts.steps_hidden : texts.steps);
  }

  say() {
    setText(this.sentence, [this.said || this.words, this.place].filter(Boolean).join(" "));
  }

  // The buyer at this page is one of the stars.
  tellPlace(text) {
    this.place = `★ ${text}`;
    this.say();
  }

  // Nothing more is to come.
  settle() {
    this.dots.settle();
  }

  countTo(left) {
    setText(this.countdown, left === null ? "" : String(left));
  }
}

// Two halves are seen against each other: the same time is as wide, and the same rate as high.
export function onOneScale(halves) {
  const all = halves.flatMap((half) => half.points);
  const most = [0, 1].map((at) => all.reduce((most, point) => Math.max(most, point[at]), 1));
  const length = Math.max(...halves.map((half) => half.points.length));
  for (const half of halves) half.plot.draw(half.points, most, length);
}
