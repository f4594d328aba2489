// The session of an administrator.

import { api } from "./api.js";
import { askForPhone, onLogin } from "./login.js";
import { byId, storage, tabStorage, texts } from "./page.js";

// Apart from the shop's: who logs in or out here leaves the buyer there alone.
const KEPT_AS = "board-session";
const GIVEN = "board-token";

// A demo's address carries a token behind the #, which no server sees. It leaves the address at once, and
// is for the board of this window alone: a link must not log anybody in at the shop.
function fromAddress() {
  const fragment = new URLSearchParams(location.hash.slice(1));
  const token = fragment.get("token");
  if (!token) return;
  tabStorage.set(GIVEN, token);
  history.replaceState(null, "", location.pathname + location.search);
}

function keep(session) {
  tabStorage.set(GIVEN, null);
  storage.set(KEPT_AS, JSON.stringify(session));
}

export function token() {
  try {
    return tabStorage.get(GIVEN) ?? JSON.parse(storage.get(KEPT_AS))?.token ?? null;
  } catch {
    return null;
  }
}

// Ends the administrator's sessions at the server, and here. A token that a demonstration gave this window is only
// forgotten: its link stays good.
export async function logOut() {
  const given = tabStorage.get(GIVEN) !== null;
  const ended = token();
  forget();
  if (!given) await api("DELETE", "/api/sessions", { token: ended });
}

export function forget() {
  const kept = tabStorage.get(GIVEN) === null ? storage : tabStorage;
  kept.set(kept === storage ? KEPT_AS : GIVEN, null);
}

// What to say of an answer that is a refusal, or none.
export function refusal(answer) {
  if (answer.status === 0) return texts.no_connection;
  const { title, detail } = answer.body ?? {};
  return [title ?? `HTTP ${answer.status}`, detail].filter(Boolean).join(": ");
}

export function show(why = "") {
  byId("login").hidden = false;
  askForPhone(why);
}

// Calls `loggedIn` after each login.
export function start(loggedIn) {
  fromAddress();
  onLogin((session) => {
    keep(session);
    byId("login").hidden = true;
    loggedIn();
  });
}
