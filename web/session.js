// Who buys: a token in the browser's storage, and the dialog that asks for one.

import { addressOf, api } from "./api.js";
import { askForPhone, onLogin } from "./login.js";
import { byId, storage, texts } from "./page.js";

const KEY = "session";
const listeners = [];
let afterLogin = null;

// {token, phone}; null: nobody is logged in.
export function session() {
  try {
    return JSON.parse(storage.get(KEY));
  } catch {
    return null;
  }
}

// Calls `listener` now and whenever somebody has logged in or out, in another window, too.
export function onSession(listener) {
  listeners.push(listener);
  listener(session());
}

function keep(value) {
  storage.set(KEY, value && JSON.stringify(value));
  tell();
}

function tell() {
  for (const listener of listeners) listener(session());
}

addEventListener("storage", (event) => event.key === addressOf(KEY) && tell());

const forget = () => keep(null);

// Logs out here at once, and ends the user's sessions at the server: on all devices. Returns what there is to say.
export async function logOut() {
  const token = session()?.token;
  forget();
  const answer = await api("DELETE", "/api/sessions", { token });
  return answer.ok || answer.status === 401 ? texts.logged_out : texts.logged_out_here;
}

// As `api`, as the user. A token that is no good any more is forgotten.
export async function apiAsUser(method, path, options = {}) {
  const token = session()?.token;
  const answer = await api(method, path, { ...options, token });
  if (answer.status === 401 && session()?.token === token) forget();
  return answer;
}

const dialog = byId("login");

// Opens the dialog; `then` runs when somebody has logged in.
export function logIn(then = null, why = "") {
  afterLogin = then;
  if (!dialog.open) dialog.showModal();
  askForPhone(why);
}

onLogin((session) => {
  const then = afterLogin;
  dialog.close();
  keep(session);
  then?.();
});
byId("cancel-login").addEventListener("click", () => dialog.close());
dialog.addEventListener("close", () => (afterLogin = null));
