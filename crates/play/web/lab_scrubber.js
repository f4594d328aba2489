// The states of a schedule one after the other: play, pause, and any of them by hand.

import { Replay } from "./lab_replay.js";
import { byId, texts } from "./page.js";
import { fill } from "./words.js";

const still = matchMedia("(prefers-reduced-motion: reduce)");
const play = byId("play");
const range = byId("scrubber");
let look = () => {};
const replay = new Replay(
  (step) => look(step),
  (isPlaying) => (play.textContent = isPlaying ? texts.pause : texts.play),
  () => still.matches,
);

// `shows` is called with the step to be looked at.
export function onLook(shows) {
  look = shows;
}

export function showPosition(at, count) {
  replay.place(at, count);
  range.max = String(count);
  range.value = String(at);
  range.setAttribute("aria-valuetext", fill(texts.at_step, { at, count }));
  range.disabled = play.disabled = count === 0;
}

export const playThrough = () => replay.through();
export const stop = () => replay.stop();

play.addEventListener("click", () => replay.toggle());
range.addEventListener("input", () => {
  stop();
  look(Number(range.value));
});
