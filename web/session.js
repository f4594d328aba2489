// Who buys: a token in the browser's storage, and the dialog that gets one.

import { api, retryAfter } from "./api.js";
import { byId, storage, texts } from "./page.js";
import { fill, sentences } from "./words.js";

const KEY = "session";
const listeners = [];
let afterLogin = null;
let phone = "";

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

addEventListener("storage", (event) => event.key === KEY && tell());

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
const phoneForm = byId("phone-form");
const codeForm = byId("code-form");
const notice = byId("login-notice");
const demonstration = byId("demonstration");

// Opens the dialog; `then` runs when somebody has logged in.
export function logIn(then = null, why = "") {
  afterLogin = then;
  step(phoneForm);
  say(why);
  if (!dialog.open) dialog.showModal();
  byId("phone").focus();
}

function step(form) {
  phoneForm.hidden = form !== phoneForm;
  codeForm.hidden = form !== codeForm;
  demonstration.hidden = true;
  say("");
}

function say(text) {
  notice.textContent = text;
}

// What a refusal says, and when to come again.
function refusal(answer) {
  if (answer.status === 0) return texts.no_connection;
  const title = answer.body?.title ?? texts.no_connection;
  const waits = answer.status === 429;
  return waits ? sentences(title, fill(texts.again_in, { seconds: retryAfter(answer) })) : title;
}

// Runs `work` when the form is sent, and not twice at once.
function onSubmit(form, work) {
  const button = form.querySelector("[type=submit]");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (button.disabled) return;
    button.disabled = true;
    say("");
    try {
      await work();
    } finally {
      button.disabled = false;
    }
  });
}

onSubmit(phoneForm, async () => {
  phone = byId("phone").value.replace(/[\s()-]/g, "");
  const answer = await api("POST", "/api/login-codes", { body: { phone } });
  if (answer.status === 422) return say(texts.wrong_phone);
  if (!answer.ok) return say(refusal(answer));
  step(codeForm);
  byId("sent-to").textContent = fill(texts.code_sent, { phone });
  const code = answer.body?.code;
  demonstration.hidden = !code;
  byId("sent-to").hidden = Boolean(code);
  if (code) byId("shown-code").textContent = code;
  byId("code").value = code ?? "";
  byId("code").focus();
});

onSubmit(codeForm, async () => {
  const code = byId("code").value.trim();
  const answer = await api("POST", "/api/sessions", { body: { phone, code } });
  if (answer.status === 401 || answer.status === 422) return say(texts.wrong_code);
  if (!answer.ok) return say(refusal(answer));
  const then = afterLogin;
  dialog.close();
  keep({ token: answer.body.token, phone: answer.body.user.phone });
  then?.();
});

byId("other-phone").addEventListener("click", () => logIn(afterLogin));
byId("cancel-login").addEventListener("click", () => dialog.close());
dialog.addEventListener("close", () => (afterLogin = null));
