// What is asked of the server. Nothing here needs a page to be loaded.

// For `fetch`: a signal that ends it after so long.
export function within(ms) {
  if (AbortSignal.timeout) return AbortSignal.timeout(ms);
  const ending = new AbortController();
  setTimeout(() => ending.abort(), ms);
  return ending.signal;
}

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// The address of a path of the server, which begins with a slash: the server may be below a path of its host.
export const addressOf = (path) => (document.documentElement.dataset?.base ?? "") + path;

// An answer of the API: {status, ok, body, headers}; `status` 0 when none came.
export async function api(method, path, { body, token, timeout = 15_000 } = {}) {
  const headers = { "accept-language": document.documentElement.lang };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (token) headers.authorization = `Bearer ${token}`;
  try {
    const response = await fetch(addressOf(path), {
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
