// A field of dots, one a buyer. What changes is drawn, and nothing else: a field of 20,000 is drawn whole
// only when it begins or changes its size.

const KINDS = ["waiting", "refused", "bought", "wrong", "star"];
const STARS = KINDS.indexOf("star");
// A batch is spread over some frames, so that a field fills and does not blink.
const FRAMES_A_BATCH = 4;
// Dots that are wider are round.
const ROUND_FROM = 9;
// The corners of a star, as shares of a dot: outer and inner ones by turns.
const STAR = Array.from({ length: 10 }, (_, at) => {
  const [angle, radius] = [(at * Math.PI) / 5 - Math.PI / 2, at % 2 ? 0.3 : 0.75];
  return [0.5 + radius * Math.cos(angle), 0.5 + radius * Math.sin(angle)];
});

export class Dots {
  constructor(canvas) {
    this.canvas = canvas;
    this.calm = matchMedia("(prefers-reduced-motion: reduce)");
    this.context = canvas.getContext("2d");
    this.kinds = new Uint8Array(0);
    this.stars = 0;
    this.queue = [];
    this.drawn = 0; // of the queue
    this.frame = 0;
    this.isSettled = true;
    new ResizeObserver(() => this.layOut()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.layOut());
  }

  // So many buyers, who all wait.
  begin(count) {
    this.kinds = new Uint8Array(count);
    this.stars = 0;
    this.forget();
    this.isSettled = false;
    this.layOut();
  }

  // So many people have bought beside the crowd: each has a place of its own behind it.
  addStars(stars) {
    if (this.stars === stars) return;
    const crowd = this.kinds.length - this.stars;
    this.stars = stars;
    this.kinds = Uint8Array.from({ length: crowd + stars }, (_, at) => (at < crowd ? this.kinds[at] : STARS));
    this.layOut();
  }

  // These buyers are of this kind now.
  set(buyers, kind) {
    const number = KINDS.indexOf(kind);
    for (const buyer of buyers) {
      this.kinds[buyer] = number;
      this.queue.push(buyer);
    }
    // Who wants no motion sees all of them at the end.
    if (this.calm.matches && !this.isSettled) return;
    if (!this.frame && this.queue.length > 0) this.frame = requestAnimationFrame(() => this.step());
  }

  // Nothing more is to come.
  settle() {
    if (this.isSettled) return;
    this.isSettled = true;
    if (this.calm.matches) this.layOut();
  }

  forget() {
    cancelAnimationFrame(this.frame);
    this.frame = 0;
    this.queue = [];
    this.drawn = 0;
  }

  step() {
    const left = this.queue.length - this.drawn;
    const end = this.drawn + Math.ceil(left / FRAMES_A_BATCH);
    this.paint(this.queue.slice(this.drawn, end));
    this.drawn = end;
    this.frame = 0;
    if (end < this.queue.length) this.frame = requestAnimationFrame(() => this.step());
    else this.forget();
  }

  // Columns and rows that fill the field, in pixels of the screen.
  layOut() {
    const { canvas, context } = this;
    const ratio = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight].map((size) => Math.floor(size * ratio));
    if (!width || !height) return;
    [canvas.width, canvas.height] = [width, height];
    const style = getComputedStyle(canvas);
    this.colours = KINDS.map((kind) => style.getPropertyValue(`--dot-${kind}`).trim());
    const count = Math.max(this.kinds.length, 1);
    this.columns = Math.max(Math.min(Math.ceil(Math.sqrt((count * width) / height)), width), 1);
    const rows = Math.ceil(count / this.columns);
    [this.cellWidth, this.cellHeight] = [width / this.columns, height / rows];
    const cell = Math.min(this.cellWidth, this.cellHeight);
    this.size = Math.max(Math.floor(cell - Math.max(cell / 6, 1)), 1);
    context.clearRect(0, 0, width, height);
    this.paint(this.calm.matches && !this.isSettled ? null : this.kinds.keys());
    this.queue = [];
    this.drawn = 0;
  }

  // Draws these dots as they are; `null`: all of them, as those that wait.
  paint(buyers) {
    if (!this.colours) return;
    const byKind = KINDS.map(() => []);
    if (buyers === null) byKind[0] = [...this.kinds.keys()];
    else for (const buyer of buyers) byKind[this.kinds[buyer]].push(buyer);
    const { context, size, columns, cellWidth, cellHeight } = this;
    for (const [kind, own] of byKind.entries()) {
      if (own.length === 0) continue;
      context.fillStyle = this.colours[kind];
      context.beginPath();
      for (const buyer of own) {
        const x = Math.floor((buyer % columns) * cellWidth);
        const y = Math.floor(Math.floor(buyer / columns) * cellHeight);
        if (kind === STARS) {
          for (const [right, down] of STAR) context.lineTo(x + right * size, y + down * size);
          context.closePath();
        } else if (size < ROUND_FROM) context.rect(x, y, size, size);
        else {
          context.moveTo(x + size, y + size / 2);
          context.arc(x + size / 2, y + size / 2, size / 2, 0, 2 * Math.PI);
        }
      }
      context.fill();
    }
  }
}
