// The view for documents: uploads files, follows their jobs, and knows them again after a
// reload, because their ids are kept in this browser.

import { ask, askJson, explain, persist, rest, tell } from "./api.js";
import { find, make, recall, remember, save, takeFiles } from "./dom.js";
import { nameLanguage, say, writeNumber } from "./words.js";

const LOOK_MS = 1000;
const [source, target, glossary] = ["source", "target", "glossary"].map((name) => find(`document-${name}`));
/** Newest first: `id` (none before the upload has ended), name, target, status … */
let jobs = [];
let isFollowing = false;
/** Whether the notice says why a document could not be looked at. */
let isRefused = false;

export function begin() {
  takeFiles(find("document-drop"), (files) => files.forEach(upload));
  addEventListener("storage", ({ key }) => key === "babelgate.documents" && adopt());
  document.addEventListener("words", show);
  document.addEventListener("key", () => {
    // Documents of another key look like deleted ones.
    const gone = jobs.filter((job) => job.status === "expired");
    for (const job of gone) Object.assign(job, { status: "queued", said: undefined });
    follow();
  });
  let followed = null; // the text's target: another one that is chosen here stays
  document.addEventListener("view", () => {
    if (followed !== find("target").value) target.value = followed = find("target").value;
  });
  adopt();
}

/** Shows what this browser keeps, also if another tab has uploaded or removed it. */
function adopt() {
  const kept = recall("documents", []);
  const isIn = (list) => (job) => list.some(({ id }) => id === job.id);
  const isNew = (job) => !isIn(jobs)(job);
  jobs = [...kept.filter(isNew), ...jobs.filter((job) => !job.id || isIn(kept)(job))];
  show();
  follow();
}

function keep() {
  const kept = jobs.filter((job) => job.id);
  remember("documents", kept.map(({ id, name, tgt_lang, status }) => ({ id, name, tgt_lang, status })));
}

async function upload(file) {
  const job = { name: file.name, tgt_lang: target.value, status: "uploading", controller: new AbortController() };
  jobs.unshift(job);
  show();
  const form = new FormData();
  form.append("tgt_lang", target.value);
  form.append("src_lang", source.value);
  if (glossary.value) form.append("glossary", glossary.value);
  form.append("file", file);
  try {
    const { signal } = job.controller;
    const send = () => askJson("documents", { method: "POST", body: form, signal });
    Object.assign(job, await persist(send, signal));
  } catch (error) {
    if (job.controller.signal.aborted) return tell(null);
    Object.assign(job, { status: "failed", said: explain(error) });
    if (error.status === 401) document.dispatchEvent(new Event("needs-key"));
  }
  keep();
  show();
  follow();
}

/** Looks at all jobs that have not ended, every second, until all have. */
async function follow() {
  if (isFollowing) return;
  isFollowing = true;
  for (let open; (open = jobs.filter(isOpen)).length; ) {
    await Promise.all(open.map(look));
    keep();
    show();
    if (jobs.some(isOpen)) await rest(LOOK_MS);
  }
  isFollowing = false;
}

function isOpen(job) {
  return job.id && ["queued", "translating"].includes(job.status);
}

async function look(job) {
  try {
    Object.assign(job, await askJson(`documents/${job.id}`));
    if (job.error) job.said = job.error.detail;
    if (isRefused) tell(null);
    isRefused = false;
  } catch (error) {
    if (error.status === 404) job.status = "expired";
    else if (!find("documents").hidden) {
      tell(explain(error)); // not the document has failed, only the question
      isRefused = true;
    }
  }
}

async function download(job) {
  try {
    const answer = await persist(() => ask(`documents/${job.id}/result`));
    const [, named] = /filename\*=UTF-8''([^;]+)/.exec(answer.headers.get("Content-Disposition") ?? "") ?? [];
    save(await answer.blob(), named ? decodeURIComponent(named) : job.name);
    delete job.said;
  } catch (error) {
    job.said = explain(error);
    if (error.status === 404) job.status = "expired";
  }
  show();
}

async function remove(job) {
  job.controller?.abort();
  jobs = jobs.filter((one) => one !== job);
  keep();
  show();
  try {
    if (job.id && job.status !== "expired") await persist(() => ask(`documents/${job.id}`, { method: "DELETE" }));
  } catch (error) {
    if (error.status !== 404) tell(explain(error));
  }
}

/** Draws only what has changed, so that focus stays where it is. */
function show() {
  const list = find("jobs");
  const shown = new Map([...list.children].map((item) => [item.job, item]));
  const items = jobs.map((job) => {
    const item = shown.get(job) ?? make("li");
    item.job = job;
    const state = JSON.stringify([job, say("done")]);
    if (item.state !== state) item.replaceChildren(...describe(job));
    item.state = state;
    return item;
  });
  if (items.some((item, index) => list.children[index] !== item) || list.children.length !== items.length) {
    list.replaceChildren(...items);
  }
}

function describe(job) {
  const sentence = { translating: "translating_document" }[job.status] ?? job.status;
  const count = job.texts
    ? ` · ${say("texts_done", { done: writeNumber(job.texts_done), all: writeNumber(job.texts) })}`
    : "";
  const isRunning = isOpen(job) || job.status === "uploading";
  const button = (word, act, kind = "") =>
    make("button", { type: "button", class: kind, onclick: () => act(job), "aria-label": `${say(word)}: ${job.name}` }, say(word));
  return [
    make("span", { class: "name", dir: "auto" }, job.name),
    make("span", { class: "note" }, `→ ${nameLanguage(job.tgt_lang)} · ${say(sentence)}${count}`),
    job.status === "done" ? button("download", download, "main") : null,
    button(isRunning ? "cancel" : "remove", remove),
    isRunning
      ? make("progress", { class: "wide", max: 1, value: job.texts ? job.texts_done / job.texts : null, "aria-label": job.name })
      : null,
    job.said ? make("span", { class: "wide wrong" }, job.said) : null,
    ...(job.warnings ?? []).map((said) => make("span", { class: "wide note" }, said)),
  ].filter(Boolean);
}
