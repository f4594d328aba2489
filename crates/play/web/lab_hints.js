// When whoever does not find it is told more: after a minute, after some steps, or at a button. Nothing here needs a page to be
// loaded.

const AFTER_MS = 60_000;
const AFTER_STEPS = 8;
const MOST = 3;

export class Hints {
  // `shows` is called with how many hints are to be seen, whenever that has changed.
  constructor(shows) {
    this.shows = shows;
    this.isWanted = false;
    this.timer = null;
    [this.count, this.steps] = [0, 0];
  }

  // Another goal, or none any more: nothing was looked for yet. `isWanted`: there is something to be found.
  startOver(isWanted) {
    this.isWanted = isWanted;
    clearTimeout(this.timer);
    this.timer = null;
    [this.count, this.steps] = [0, 0];
    this.shows(0);
  }

  // A game begins. Whoever begins it anew has looked for so long, and taken so many steps, already.
  begin() {
    if (this.isWanted && this.timer === null) this.timer = setTimeout(() => this.nudge(), AFTER_MS);
  }

  // A step of the reader, which broke nothing.
  stepTaken() {
    this.steps += 1;
    if (this.steps >= AFTER_STEPS) this.nudge();
  }

  nudge() {
    if (this.count === 0) this.more();
  }

  // First where to look, then how it begins, then the schedule.
  more() {
    if (!this.isWanted || this.isAll()) return;
    this.count += 1;
    this.shows(this.count);
  }

  isAll() {
    return this.count >= MOST;
  }

  // What the button says: which hint is the next one, or was the last.
  next() {
    return Math.min(this.count + 1, MOST);
  }
}
