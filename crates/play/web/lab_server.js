// What is asked of the server: a session, which the page leaves when it goes.

import { api } from "./api.js";

// What an open session may take on a slow machine: servers start.
const OPENS_WITHIN = 120_000;
// Longer than the lab waits for a step.
const STEPS_WITHIN = 60_000;
const SESSIONS = "/api/lab/sessions";

// Of this visit: known also when an answer is lost, and another one in a copy of the tab. (randomUUID needs TLS.)
export const session = randomName();
let hasAsked = false;

function randomName() {
  const digits = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) =>
    byte.toString(16).padStart(2, "0"),
  ).join("");
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

// Plays a schedule from its beginning.
export function openSession(body) {
  hasAsked = true;
  return api("POST", SESSIONS, { body: { ...body, session }, timeout: OPENS_WITHIN });
}

export function takeStep(actor) {
  return api("POST", `${SESSIONS}/${session}/steps`, { body: { actor }, timeout: STEPS_WITHIN });
}

export function rungFile(rung) {
  return api("GET", `/api/lab/rungs/${encodeURIComponent(rung)}`);
}

// It outlives the page. What is lost all the same ends by the clock.
addEventListener("pagehide", () => {
  if (hasAsked) fetch(`${SESSIONS}/${session}`, { method: "DELETE", keepalive: true }).catch(() => {});
});
