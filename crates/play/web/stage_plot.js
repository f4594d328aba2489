// Answers above, orders below, a bar for each tenth of a second of the sale, and no more time than that. Each
// row has a scale of its own: 29,000 answers a second do not flatten 2,000 orders.

const FEWEST = 12;

export class Plot {
  constructor(canvas) {
    this.canvas = canvas;
    this.drawn = [[]];
    new ResizeObserver(() => this.draw(...this.drawn)).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw(...this.drawn));
  }

  // `most` answers and orders are as high as a row, and `length` points as wide as the plot.
  draw(points, most = [1, 1], length = 0) {
    this.drawn = [points, most, length];
    const { canvas } = this;
    const ratio = devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight].map((size) => Math.floor(size * ratio));
    if (!width || !height) return;
    [canvas.width, canvas.height] = [width, height];
    const context = canvas.getContext("2d");
    const style = getComputedStyle(canvas);
    const room = width / Math.max(length, FEWEST);
    const row = Math.floor(height / 2) - 2;
    for (const [at, colour] of ["--bar-answers", "--bar-orders"].entries()) {
      const floor = (at + 1) * (height / 2) - 1;
      context.fillStyle = style.getPropertyValue(colour).trim();
      for (const [index, point] of points.entries()) {
        const bar = Math.ceil((point[at] / most[at]) * row);
        context.fillRect(index * room, floor - bar, Math.max(room - ratio, 1), bar);
      }
      context.fillRect(0, floor, width, 1);
    }
  }
}
