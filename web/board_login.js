// The session of an administrator.

import { api } from "./api.js";
import * as form from "./board_form.js";
import { byId, element, storage, tabStorage, texts } from "./page.js";
import { fill } from "./words.js";

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

function keep(token, phone) {
  tabStorage.set(GIVEN, null);
  storage.set(KEPT_AS, JSON.stringify({ token, phone }));
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
  if (answer.status === 0) return texts.unreachable;
  const { title, detail } = answer.body ?? {};
  return [title ?? `HTTP ${answer.status}`, detail].filter(Boolean).join(": ");
}

// Asks for a code; returns it where the server tells it, an empty text where it does not, and null when
// it was refused.
async function sendCode(phone) {
  const sent = await api("POST", "/api/login-codes", { body: { phone } });
  if (!sent.ok) {
    byId("login-state").textContent = refusal(sent);
    return null;
  }
  return sent.body?.code ?? "";
}

async function logIn(phone, code) {
  const created = await api("POST", "/api/sessions", { body: { phone, code } });
  if (!created.ok) {
    byId("login-state").textContent = refusal(created);
    return false;
  }
  keep(created.body.token, created.body.user.phone);
  return true;
}

export function show(why = "") {
  byId("login").hidden = false;
  byId("login-state").textContent = why;
}

// Calls `loggedIn` after each login.
export function start(loggedIn) {
  fromAddress();
  byId("send-code").addEventListener("click", async () => {
    const phone = byId("phone").value.trim();
    if (!form.show(["phone", "code"], phone ? [] : [["phone", texts.phone_missing]])) return;
    const code = await sendCode(phone);
    if (code === null) return;
    const told = code ? fill(texts.code_shown, { code }) : texts.code_sent;
    byId("login-state").replaceChildren(element("span", {}, told));
    byId("code").value = code;
    byId("code").focus();
  });
  byId("login-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    const [phone, code] = [byId("phone").value.trim(), byId("code").value.trim()];
    const wrong = [];
    if (!phone) wrong.push(["phone", texts.phone_missing]);
    if (!/^[0-9]{6}$/.test(code)) wrong.push(["code", texts.code_missing]);
    if (!form.show(["phone", "code"], wrong)) return;
    if (await logIn(phone, code)) {
      byId("code").value = "";
      byId("login").hidden = true;
      loggedIn();
    }
  });
}
