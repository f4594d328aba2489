// When the board audits a sale by itself, and which audits it still shows. Nothing here needs a page to be loaded.

// A server that refuses an audit is not asked again at once, and less and less often.
const AGAIN_AFTER_MS = 5_000;
const AT_LEAST_EVERY_MS = 300_000;
// The last audits are kept, of so many sales.
const MOST = 32;

export class Audits {
  constructor() {
    // The last audit of each sale; the last in the map was made last.
    this.made = new Map();
    // Sales that were seen before they were sold out or over, and not audited since.
    this.unaudited = new Set();
    // What was left of the sales that were sold out or over at the last reading.
    this.soldOut = new Map();
    this.pause = AGAIN_AFTER_MS;
    this.from = 0;
  }

  of(id) {
    return this.made.get(id) ?? null;
  }

  // A sale was read. `isStale`: the verdict was that of the sale before its stock came back. `isDue`: it was seen before
  // it was sold out or over, or was never audited here.
  see({ id, status, stock }, now) {
    const isOver = status === "sold_out" || status === "ended";
    const isStale = this.soldOut.has(id) && (!isOver || this.soldOut.get(id) !== stock);
    if (isStale) {
      this.soldOut.delete(id);
      this.made.delete(id);
    }
    if (isOver) this.soldOut.set(id, stock);
    else this.unaudited.add(id);
    const isNew = this.unaudited.has(id) || !this.made.has(id);
    return { isStale, isDue: isOver && isNew && now >= this.from };
  }

  // It is watched again. Meanwhile its stock may have come back and been sold again.
  comeBack(id) {
    if (this.made.has(id)) this.unaudited.add(id);
  }

  // The answer to an audit came; null: it was refused.
  keep(id, made, now) {
    this.from = now + this.pause;
    this.pause = made ? AGAIN_AFTER_MS : Math.min(2 * this.pause, AT_LEAST_EVERY_MS);
    if (!made) return;
    this.unaudited.delete(id);
    this.made.delete(id);
    this.made.set(id, made);
    for (const old of [...this.made.keys()].slice(0, -MOST)) this.made.delete(old);
  }
}
