// What the scripts of all pages share. Text enters a page as text: nothing here makes HTML of it, and the page's policy
// forbids it to every script. The browsers that the scripts are written for stand in docs/reference.md.

// What this page says, in its language; src/pages/ writes it.
export const texts = JSON.parse(document.getElementById("texts").textContent);
export const language = document.documentElement.lang;

// What the browser keeps in `area`; where it keeps nothing, for this visit.
function storageOf(area) {
  const kept = new Map();
  return {
    get(key) {
      try {
        return globalThis[area].getItem(key);
      } catch {
        return kept.get(key) ?? null;
      }
    },
    // `null` forgets.
    set(key, value) {
      try {
        if (value === null) globalThis[area].removeItem(key);
        else globalThis[area].setItem(key, value);
      } catch {
        if (value === null) kept.delete(key);
        else kept.set(key, value);
      }
    },
  };
}

// For the next visit, in all windows; and for a reload of this one.
export const storage = storageOf("localStorage");
export const tabStorage = storageOf("sessionStorage");

// The choice of a language is kept for the next visit, and in the address for whoever gets it.
const chosen = new URLSearchParams(location.search).get("lang");
if (chosen) {
  storage.set("lang", language);
} else {
  const last = storage.get("lang");
  if (last && last !== language) location.replace(withLanguage(last));
}
const other = document.getElementById("language");
other.addEventListener("click", () => (other.href = withLanguage(other.lang)));

function withLanguage(tag) {
  const url = new URL(location.href);
  url.searchParams.set("lang", tag);
  return url;
}

// On a phone the row of pages is wider than the screen. The page itself stays where it is.
const here = document.querySelector(".top nav [aria-current]");
if (here)
  here.parentElement.scrollLeft = here.offsetLeft - here.parentElement.offsetLeft - here.parentElement.clientWidth / 2;

export const byId = (id) => document.getElementById(id);

// `text` with `{name}` replaced by the value of that name.
export function fill(text, values) {
  return text.replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

// A text and a sentence after it. The title of a problem, or what ends with a number, has no stop of its own.
export function sentences(text, next) {
  const [stop, gap] = language === "zh-CN" ? ["。", ""] : [".", " "];
  return text + (/\p{P}$/u.test(text) ? "" : stop) + gap + next;
}

// `text` in a sentence, whatever direction its letters or their marks have (Unicode's isolates).
export const isolated = (text) => `\u2068${text}\u2069`;

// An element with these properties (`class`, `data-…` and `aria-…` are attributes) and children,
// which are elements or text.
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (key === "class" || key.includes("-")) made.setAttribute(key, value);
    else made[key] = value;
  }
  made.append(...children);
  return made;
}

// The last of a list. Some browsers that buy here have no `at` yet, and no `AbortSignal.timeout`.
export const lastOf = (list) => list[list.length - 1];

// For `fetch`: a signal that ends it after so long.
export function within(ms) {
  if (AbortSignal.timeout) return AbortSignal.timeout(ms);
  const ending = new AbortController();
  setTimeout(() => ending.abort(), ms);
  return ending.signal;
}

// An answer of the API: {status, ok, body, headers}; `status` 0 when none came.
export async function api(method, path, { body, token, timeout = 15_000 } = {}) {
  const headers = { "accept-language": language };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (token) headers.authorization = `Bearer ${token}`;
  try {
    const response = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: within(timeout),
    });
    const text = await response.text();
    const parsed = text ? JSON.parse(text) : null;
    return { status: response.status, ok: response.ok, body: parsed, headers: response.headers };
  } catch {
    return { status: 0, ok: false, body: null, headers: new Headers() };
  }
}

// The seconds that a refusal asks to wait for.
export function retryAfter(answer) {
  const seconds = Number.parseInt(answer.headers.get("retry-after"), 10);
  return Number.isFinite(seconds) ? Math.min(Math.max(seconds, 1), 60) : 1;
}
