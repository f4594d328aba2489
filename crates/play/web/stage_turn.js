// Whether a show may be begun from this page, and what begins by itself when one is over. Nothing here needs a page to be
// loaded.

const UNDER_WAY = ["preparing", "countdown", "selling", "auditing"];

export class Turn {
  constructor() {
    this.show = null; // as the server says it is
    this.isForbidden = false; // this page is not on the server's machine
    this.pressed = null; // the button that began the show
    this.isConnected = false;
    this.isFull = false; // there is no place to watch
    this.isAsking = false;
    this.isFresh = true; // the stream has told nothing yet
    this.awaited = 0; // the number of the show that this page began, until the stream tells of it
  }

  isUnderWay() {
    return UNDER_WAY.includes(this.show?.phase);
  }

  isBusy() {
    const isTold = (this.isConnected && !this.isFresh) || this.isFull;
    return this.isForbidden || !isTold || this.isAwaited() || this.isUnderWay();
  }

  isAwaited() {
    return this.isAsking || this.awaited > 0;
  }

  isOver() {
    return this.show !== null && this.show.number > 0 && !this.isUnderWay();
  }

  // The stream is there.
  opened() {
    this.isConnected = this.isFresh = true;
    this.isFull = false;
  }

  // It is not there any more, or there is no place for it: a sale can be started all the same.
  cutOff(isFull) {
    this.isConnected = false;
    this.isFull = isFull;
  }

  told(show) {
    this.show = show;
    if (this.isFresh || show.number >= this.awaited) this.awaited = 0;
    this.isFresh = false;
  }

  // Whether the server is to be asked for a show, because this button was pressed.
  asks(pressed) {
    if (this.isAwaited() || this.isUnderWay()) return false;
    this.isAsking = true;
    this.pressed = pressed;
    return true;
  }

  // The stream may tell of the show sooner or later than the answer does.
  answered({ ok, status, body }) {
    this.isAsking = false;
    if (ok && this.show?.number < body.number) this.awaited = body.number;
    else if (!ok) this.pressed = null;
    this.isForbidden = status === 403;
  }

  // A rush that was sold beside nothing yet: a wrong design may stand beside it.
  isBeside() {
    return this.show?.crowd === "rush" && Boolean(this.show.halves[0]?.verdict);
  }

  // Forgets the button of a show that is over. Returns whether the same crowd meets a wrong design by itself: `start` was
  // pressed here.
  comesNext(start) {
    if (!this.isOver() || this.isBusy()) return false;
    const wasStart = this.pressed === start;
    this.pressed = null;
    return wasStart && this.isBeside() && this.show.halves.length === 1 && this.show.phase === "ended";
  }
}
