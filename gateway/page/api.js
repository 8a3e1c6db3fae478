// Every request of the page: the key, time to wait, and errors as sentences.

import { find, recall, remember } from "./dom.js";
import { Interrupted, readEvents } from "./events.js";
import { say } from "./words.js";

/** Where the API is, also behind a proxy that adds a path before ours. */
export const root = new URL("../../", import.meta.url);

/** The server's answer that something is wrong: a problem document. */
export class Problem extends Error {
  constructor(status, content, wait_s) {
    super(content?.detail ?? "");
    this.status = status;
    this.slug = String(content?.type ?? "").replace("urn:babelgate:", "");
    this.wait_s = wait_s;
  }
}

/** Nobody answers, or only a proxy that has nobody behind it. */
export class Unreachable extends Error {}

const SENTENCES = {
  "invalid-key": "error_key",
  "key-not-allowed": "error_key",
  "quota-exceeded": "error_quota",
  "body-too-large": "error_large",
  "too-many-rows": "error_large",
  "unknown-format": "error_format",
  "unsupported-image": "error_format",
  "unknown-language": "error_language",
  "internal": "error_internal",
};

export function readKey() {
  return recall("key", "");
}

export function keepKey(key) {
  remember("key", key || null);
}

/** An answer of the API. Throws Problem, Unreachable, and what an abort or a file that is gone,
    has changed or is a folder throws. */
export async function ask(path, { method = "GET", json, body, headers = {}, signal } = {}) {
  const sent = { ...headers };
  if (json !== undefined) sent["Content-Type"] = "application/json";
  if (readKey()) sent.Authorization = `Bearer ${readKey()}`;
  let answer;
  try {
    const content = json === undefined ? body : JSON.stringify(json);
    answer = await fetch(new URL(path, root), { method, headers: sent, body: content, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const file = body instanceof FormData ? body.get("file") : body;
    await file?.slice(0, 1).arrayBuffer(); // fails if it is not the network that has failed
    throw new Unreachable();
  }
  if (answer.ok) return answer;
  const wait_s = Number(answer.headers.get("Retry-After")) || 0; // a proxy's may be a date
  const content = await answer.json().catch(() => null);
  signal?.throwIfAborted();
  throw judge(answer.status, content, wait_s);
}

function judge(status, content, wait_s) {
  const problem = new Problem(status, content, wait_s);
  // What does not fit into a device's memory will not fit later.
  const isLasting = problem.slug === "out-of-memory";
  const isNobody = content === null || ([502, 503].includes(status) && !isLasting);
  return isNobody ? new Unreachable() : problem;
}

export async function askJson(path, options) {
  const answer = await ask(path, options);
  return answer.json();
}

/** The answer at the end of a stream of events; `show` gets what each event before it tells.
    Throws what `ask` and `readEvents` throw. */
export async function askStream(path, options, show) {
  const { body } = await ask(path, { ...options, headers: { Accept: "text/event-stream" } });
  for await (const [name, content] of readEvents(body)) {
    if (name === "error") throw judge(content.status, content, 0);
    if (name === "done") return content;
    show(content);
  }
}

/** What went wrong, in the page's words; the server's own follow where they say more. */
export function explain(error) {
  if (error instanceof Unreachable) return say("unreachable");
  if (error instanceof Interrupted) return say("interrupted");
  if (error instanceof DOMException) return say("error_file");
  if (!(error instanceof Problem)) return say("error_internal");
  if (error.status === 429) return say("wait", { seconds: error.wait_s || 1 });
  const known = SENTENCES[error.slug];
  if (known === "error_key" || known === "error_quota") return say(known);
  return [known ? say(known) : "", error.message].filter(Boolean).join(" ");
}

/** Says it above the view; without a sentence, says nothing any more. */
export function tell(sentence) {
  const notice = find("notice");
  notice.textContent = sentence ?? "";
  notice.hidden = !sentence;
}

const RETRY_MS = 1500;

/** Repeats what cannot be done now, and says so: nobody answers, or the service is busy. */
export async function persist(work, signal) {
  for (;;) {
    try {
      const result = await work();
      tell(null);
      return result;
    } catch (error) {
      const isBusy = error instanceof Problem && error.status === 429;
      const isPassing = error instanceof Unreachable || isBusy;
      tell(isPassing ? explain(error) : null);
      if (!isPassing) throw error;
      await rest(isBusy ? Math.max(1, error.wait_s) * 1000 : RETRY_MS, signal);
    }
  }
}

/** Waits; throws the signal's reason if it is aborted meanwhile. */
export function rest(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}
