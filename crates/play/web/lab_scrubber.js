// The states of a schedule one after the other: play, pause, and any of them by hand.

import { byId, fill, texts } from "./page.js";

const STEP_MS = 900;
const still = matchMedia("(prefers-reduced-motion: reduce)");

const play = byId("play");
const range = byId("scrubber");
let timer = null;
let [at, count] = [0, 0];
let look = () => {};

// `shows` is called with the step to be looked at.
export function onLook(shows) {
  look = shows;
}

export function showPosition(now, length) {
  [at, count] = [now, length];
  if (at >= count) stop();
  range.max = String(count);
  range.value = String(at);
  range.setAttribute("aria-valuetext", fill(texts.at_step, { at, count }));
  range.disabled = play.disabled = count === 0;
}

// From the beginning, one step after the other; at once where nothing is to move.
export function playThrough() {
  stop();
  if (still.matches) return look(count);
  look(0);
  start();
}

function start() {
  timer = setInterval(() => (at < count ? look(at + 1) : stop()), STEP_MS);
  play.textContent = texts.pause;
}

export function stop() {
  clearInterval(timer);
  timer = null;
  play.textContent = texts.play;
}

play.addEventListener("click", () => {
  if (timer !== null) return stop();
  if (at >= count) look(0);
  start();
});
range.addEventListener("input", () => {
  stop();
  look(Number(range.value));
});
