// Requests to the API of the service that served the console, with the key of the session if it has one: a proxy before the
// service may have signed the person in.

// The name of the key in the storage of this tab. A browser sends nothing from there by itself, unlike a cookie.
const KEY = "shortener-key";
// Longer than the time in which the service answers every request.
const PATIENCE_MS = 20_000;
// The longest wait that an answer can ask for, and the number of times that long work repeats a request.
const MOST_WAIT_S = 60;
const TRIES = 20;

// An error as people read it.
export class Problem extends Error {
  // `status` is 0 without an answer. `fields` has the rule of each invalid field by its name, and `retryAfter` the seconds after
  // which the service wants to be asked again, if it said so.
  constructor(message, { status = 0, type = "unknown", fields = {}, retryAfter = null } = {}) {
    super(message);
    Object.assign(this, { status, type, fields, retryAfter });
  }

  // Takes a problem document (RFC 9457), or nothing if the answer had none.
  static of(status, document, retryAfter = null) {
    const fields = {};
    for (const { field, reason } of document?.errors ?? []) fields[field] ??= reason;
    const type = document?.type?.replace("/problems/", "");
    const named = Object.entries(fields).map(([field, reason]) => `${field} ${reason}`);
    const message = named.length > 0 ? named.join("; ") : (document?.detail ?? `The service answered ${status}.`);
    return new Problem(message, { status, type, fields, retryAfter });
  }
}

export const session = {
  get key() {
    return sessionStorage.getItem(KEY);
  },
  begin(key) {
    sessionStorage.setItem(KEY, key);
  },
  end() {
    sessionStorage.removeItem(KEY);
  },
};

// Sends a request and returns the body of its answer: an object, or text if it is not JSON. `body` is an object, or text of the
// media type `type`. Fails with a Problem.
export async function request(method, path, { body, type = "application/json", key = session.key } = {}) {
  const headers = new Headers({ accept: "application/json" });
  if (key) headers.set("authorization", `Bearer ${key}`);
  if (body !== undefined) headers.set("content-type", type);
  let response, text;
  try {
    response = await fetch(path, {
      method,
      headers,
      body: typeof body === "object" ? JSON.stringify(body) : body,
      cache: "no-store",
      credentials: "same-origin",
      redirect: "manual",
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
    text = await response.text();
  } catch {
    throw new Problem("The service did not answer. Check the connection before you try again: what you asked for may be done.");
  }
  // A proxy that does not know the person any more leads to where people sign in.
  const status = response.type === "opaqueredirect" ? 401 : response.status;
  const isJson = /[/+]json\b/.test(response.headers.get("content-type"));
  const answer = isJson ? JSON.parse(text) : text;
  if (!response.ok) {
    // Any request may be the first one after the key was revoked.
    if (status === 401) dispatchEvent(new CustomEvent("not-signed-in"));
    throw Problem.of(status, isJson ? answer : null, Number(response.headers.get("retry-after")) || null);
  }
  return answer;
}

export const get = (path, parameters = {}) => {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(given).toString();
  return request("GET", query ? `${path}?${query}` : path);
};
export const post = (path, body, type) => request("POST", path, { body, type });

// Returns the path of a link in management, with what follows it.
export const linkPath = (code, rest = "") => `/api/admin/links/${encodeURIComponent(code)}${rest}`;

// Errors after which nothing was done, so that every request may be repeated.
export const wasRefused = ({ status, type }) => status === 429 || type === "busy" || type === "dead-letters-busy";
// Errors that pass. The request may have been done, so only one that may be done twice is repeated.
export const isPassing = (problem) => wasRefused(problem) || [0, 502, 503, 504].includes(problem.status);

// Repeats a request while its error is one to `repeat`, until it has failed too often or the signal ends the work.
export async function patient(attempt, { repeat = isPassing, signal } = {}) {
  for (let left = TRIES; ; left--) {
    try {
      return await attempt();
    } catch (problem) {
      if (!repeat(problem) || left === 1 || signal?.aborted) throw problem;
      await pause(1000 * Math.min(problem.retryAfter ?? 1, MOST_WAIT_S), signal);
    }
  }
}

// Asks for dead letters. A replica works on them for one request at a time, so another request may have to end first.
export const getLetters = (path, parameters) => patient(() => get(`/api/admin/dead-letters${path}`, parameters), { repeat: wasRefused });

function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
