// What the scripts of all pages share. Text enters a page as text: nothing here makes HTML of it, and the page's policy
// forbids it to every script. The browsers that the scripts are written for stand in docs/reference.md.

import { addressOf } from "./api.js";

// What this page says, in its language; src/pages/ writes it.
export const texts = JSON.parse(document.getElementById("texts").textContent);
export const language = document.documentElement.lang;

// Storage in `area` of the browser; if the browser keeps nothing, for this visit only. All paths of a host have one area: a
// key has the path of its shop, so that two shops do not log each other out.
function storageOf(area) {
  const kept = new Map();
  return {
    get(key) {
      try {
        return globalThis[area].getItem(addressOf(key));
      } catch {
        return kept.get(key) ?? null;
      }
    },
    // `null` forgets.
    set(key, value) {
      try {
        if (value === null) globalThis[area].removeItem(addressOf(key));
        else globalThis[area].setItem(addressOf(key), value);
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
