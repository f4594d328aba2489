// The states of a schedule one after the other. Nothing here needs a page to be loaded.

const STEP_MS = 900;

export class Replay {
  // `looks` is called with the step to be looked at, `plays` with whether steps are shown one after the other, and `isStill`
  // says whether nothing is to move.
  constructor(looks, plays, isStill) {
    Object.assign(this, { looks, plays, isStill });
    this.timer = null;
    [this.at, this.count] = [0, 0];
  }

  // What is looked at now, of so many steps.
  place(at, count) {
    [this.at, this.count] = [at, count];
    if (at >= count) this.stop();
  }

  // From the beginning, one step after the other; at once where nothing is to move.
  through() {
    this.stop();
    if (this.isStill()) return this.looks(this.count);
    this.looks(0);
    this.start();
  }

  // Goes on, or pauses.
  toggle() {
    if (this.timer !== null) return this.stop();
    if (this.at >= this.count) this.looks(0);
    this.start();
  }

  start() {
    this.timer = setInterval(() => (this.at < this.count ? this.looks(this.at + 1) : this.stop()), STEP_MS);
    this.plays(true);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.plays(false);
  }
}
