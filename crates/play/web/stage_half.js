// One seller on the stage: its number, its dots, its plot, its sentence.

import { setText } from "./format.js";
import { byId, element, fill, language, texts } from "./page.js";
import { Dots } from "./stage_dots.js";
import { Plot } from "./stage_plot.js";

const POINTS_A_SECOND = 10;
const ALSO = ["undersold", "lost", "untold", "unexpected", "not_made"];
const whole = new Intl.NumberFormat(language, { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat(language, { maximumSignificantDigits: 3 });
const seconds = new Intl.NumberFormat(language, { minimumFractionDigits: 1, maximumFractionDigits: 1 });

export const count = (number) => whole.format(number);

export class Half {
  constructor(id) {
    this.node = byId(id);
    const find = (selector) => this.node.querySelector(selector);
    this.title = find("h2");
    this.number = find(".number");
    this.of = find(".of");
    this.countdown = find(".count");
    this.sentence = find(".sentence");
    this.dots = new Dots(find(".dots"));
    this.plot = new Plot(find(".plot"));
    this.points = [];
  }

  // Before a show: what is to come.
  await({ users, stock }) {
    this.dots.begin(users);
    this.showLeft(stock, stock);
    this.points = [];
    this.plot.draw([]);
    this.isSelling = false;
    this.showFigures(null);
    this.judge(null);
  }

  // `half` is what the server says of it; `words` what is said while there is no verdict.
  show(half, words) {
    if (half.is_whole) {
      this.await(half);
      const rung = texts.rungs.find(({ id }) => id === half.rung);
      setText(this.title, rung?.title ?? texts.ours);
    }
    for (const kind of ["refused", "bought", "wrong"]) this.dots.set(half[kind], kind);
    if (half.points.length > 0) {
      this.points.push(...half.points);
      this.plot.draw(this.points);
    }
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
      const rates = this.points.map((point) => point[at] * POINTS_A_SECOND);
      const now = this.isSelling ? (rates.at(-1) ?? 0) : 0;
      const peak = rates.reduce((most, rate) => Math.max(most, rate), 0);
      const place = this.node.querySelector(`[data-figure=${name}]`);
      place.replaceChildren(count(now), " ", element("small", {}, fill(texts.peak, { peak: count(peak) })));
    }
    for (const name of ["p50", "p99"]) {
      const ms = verdict?.[`${name}_ms`];
      setText(this.node.querySelector(`[data-figure=${name}]`), ms ? `${short.format(ms)} ms` : "–");
    }
  }

  judge(verdict, words = "") {
    // A count that runs is not read out, what comes of it is.
    this.sentence.ariaLive = this.isSelling ? "off" : "polite";
    if (verdict) this.node.dataset.holds = String(verdict.holds);
    else delete this.node.dataset.holds;
    setText(this.sentence, verdict ? sentence(verdict) : words);
  }

  // Nothing more is to come.
  settle() {
    this.dots.settle();
  }

  countTo(left) {
    setText(this.countdown, left === null ? "" : String(left));
  }
}

function sentence(verdict) {
  const { sold, oversold, duplicates, refused, elapsed_ms: ms } = verdict;
  const values = {
    sold: count(sold),
    oversold: count(oversold),
    duplicates: count(duplicates),
    refused: count(refused),
    seconds: seconds.format(ms / 1000),
  };
  const also = ALSO.filter((name) => verdict[name] !== 0);
  const more = also.map((name) => fill(texts[`also_${name}`], { count: count(verdict[name]) }));
  const reasons = verdict.reasons.map((reason) => reason.replace(/\.$/, "")).join("; ");
  if (reasons) more.push(fill(texts.reasons, { reasons }));
  return [fill(texts.sentence, values), ...more].join(" ");
}
