// Logging in, in the shop and on the board: a phone, then the code that was sent to it. Where the token is kept is the page's.

import { api, retryAfter } from "./api.js";
import { byId, texts } from "./page.js";
import { fill, sentences } from "./words.js";

const [phoneForm, codeForm] = ["phone-form", "code-form"].map(byId);
let phone = "";

// Begins with the phone; `why` somebody has to log in stands below it.
export function askForPhone(why = "") {
  step(phoneForm);
  say(why);
  byId("phone").focus();
}

function step(form) {
  phoneForm.hidden = form !== phoneForm;
  codeForm.hidden = form !== codeForm;
  byId("demonstration").hidden = true;
  say("");
}

function say(text) {
  byId("login-notice").textContent = text;
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
  byId("demonstration").hidden = !code;
  byId("sent-to").hidden = Boolean(code);
  if (code) byId("shown-code").textContent = code;
  byId("code").value = code ?? "";
  byId("code").focus();
});

byId("other-phone").addEventListener("click", () => askForPhone());

// Calls `loggedIn` with {token, phone} after each login.
export function onLogin(loggedIn) {
  onSubmit(codeForm, async () => {
    const code = byId("code").value.trim();
    const answer = await api("POST", "/api/sessions", { body: { phone, code } });
    if (answer.status === 401 || answer.status === 422) return say(texts.wrong_code);
    if (!answer.ok) return say(refusal(answer));
    loggedIn({ token: answer.body.token, phone: answer.body.user.phone });
  });
}
