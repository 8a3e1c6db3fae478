// The view for texts: translates while somebody types. The request before is aborted, and
// lines that are known are not asked for again.

import { askJson, askStream, explain, persist, tell } from "./api.js";
import { copy, find, findDirection, make, recall, remember, settings } from "./dom.js";
import { Interrupted } from "./events.js";
import { Output } from "./output.js";
import { listParts, listSentences } from "./sentences.js";
import { nameLanguage, say, writeNumber, writeShare } from "./words.js";

/** Typing has paused; together with the page's own time this stays below 150 ms. */
const PAUSE_MS = 90;
/** A text that stays as it is for so long may go to the history. */
const SETTLED_MS = 1500;
const MOST_CHARACTERS = 100_000;
const AT_ONCE = 3;
/** The answer to a request of more characters is shown while it is made. */
const STREAMED_CHARACTERS = 300;
/** Lines besides those of a text whose translations are kept while the page is open. */
const MOST_KNOWN = 2000;
/** Below, the API does not guess either. */
const LEAST_CONFIDENCE = 0.5;
/** Characters that tell a language. */
const ENOUGH = 2000;
/** Languages that were used last: a short text that is not clear is likely in one of them. */
const MOST_USED = 4;

const [source, target, given] = ["source", "target", "given"].map(find);
const [format, glossary, protect, quality] = ["format", "glossary", "protect", "quality"].map(find);
const output = new Output();
const known = new Map();
let controller = new AbortController();
let timer, settling;
let guessed = null;
let isTargetChosen = false;

export function begin() {
  const link = new URLSearchParams(location.search);
  choose(source, link.get("source") ?? recall("source", "auto"));
  const wanted = link.get("target") ?? recall("target", null);
  isTargetChosen = wanted !== null;
  choose(target, wanted ?? target.value);
  if (link.has("q")) given.value = link.get("q");
  given.addEventListener("input", (event) => event.isComposing || translateSoon());
  given.addEventListener("compositionend", translateSoon);
  given.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translateNow();
  });
  find("form").addEventListener("submit", (event) => event.preventDefault());
  choose(quality, recall("quality", ""));
  for (const field of [source, target, format, glossary, protect, quality]) {
    field.addEventListener("change", translateNow);
  }
  quality.addEventListener("change", () => remember("quality", quality.value || null));
  source.addEventListener("change", () => remember("source", source.value));
  target.addEventListener("change", rememberTarget);
  find("swap-button").addEventListener("click", swap);
  find("clear-button").addEventListener("click", () => {
    given.focus();
    given.select();
    document.execCommand("delete"); // as by hand: Ctrl+Z brings it back
  });
  find("copy-button").addEventListener("click", (event) => copyWith(event, output.text));
  find("link-button").addEventListener("click", (event) => copyWith(event, writeLink()));
  find("paste-button").hidden = !navigator.clipboard?.readText;
  find("paste-button").addEventListener("click", async () => enter(await navigator.clipboard.readText()));
  document.addEventListener("words", count);
  for (const change of ["key", "terms"]) {
    document.addEventListener(change, () => {
      known.clear();
      translateNow();
    });
  }
  count();
  if (given.value.trim()) translateNow();
}

/** Puts a text and its languages on the page, as from the history. */
export function open(entry) {
  choose(source, entry.source);
  choose(target, entry.target);
  enter(entry.text);
}

/** What a request says beside its text. */
export function readAsked() {
  const from = source.value === "auto" ? (guessed?.language ?? "auto") : source.value;
  const fields = { src_lang: from, tgt_lang: target.value };
  if (format.value !== "text") fields.format = format.value;
  if (!protect.checked) fields.protect = false;
  if (glossary.value) fields.glossary = glossary.value;
  if (quality.value) fields.quality = true;
  const limit = Number(quality.value);
  return { source: from, target: target.value, format: format.value, limit, fields };
}

export function readText() {
  return given.value;
}

function choose(select, value) {
  if ([...select.options].some((option) => option.value === value)) select.value = value;
}

function rememberTarget() {
  isTargetChosen = true;
  remember("target", target.value);
}

function enter(text) {
  given.value = text;
  given.focus();
  translateNow();
}

async function copyWith(event, text) {
  const button = event.currentTarget;
  await copy(text);
  tell(say("copied"));
  setTimeout(() => tell(null), 1500);
  button.focus();
}

function writeLink() {
  const link = new URL(location.pathname, location.href);
  link.search = new URLSearchParams({ source: source.value, target: target.value, q: given.value });
  return link.href;
}

function swap() {
  const { source: from, target: into } = readAsked();
  const text = output.isWhole ? output.text : ""; // what is typed is not to be lost
  choose(source, into);
  if (settings.languages.includes(from)) choose(target, from);
  else chooseOther(); // the source is not known yet, or only read
  remember("source", source.value);
  rememberTarget();
  enter(text || given.value);
}

function count() {
  const left = MOST_CHARACTERS - given.value.length;
  find("left").classList.toggle("wrong", left < 0);
  find("left").textContent = writeNumber(left);
  find("left").title = say("characters_left", { count: writeNumber(left) });
  return left;
}

function translateSoon() {
  clearTimeout(timer);
  controller.abort();
  count();
  output.wait();
  timer = setTimeout(translateNow, PAUSE_MS);
}

async function translateNow() {
  clearTimeout(timer);
  clearTimeout(settling);
  controller.abort();
  controller = new AbortController();
  const { signal } = controller;
  document.dispatchEvent(new Event("asked"));
  if (count() < 0) {
    const over = writeNumber(given.value.length - MOST_CHARACTERS);
    output.clear();
    return state(say("too_long", { count: over }), "wrong");
  }
  try {
    await persist(() => translate(given.value, signal), signal);
  } catch (error) {
    if (signal.aborted) return;
    if (error instanceof Interrupted) output.stop();
    else output.clear();
    state(explain(error), "wrong");
    if (error.status === 401) document.dispatchEvent(new Event("needs-key"));
  }
}

async function translate(text, signal) {
  state("");
  if (!text.trim()) {
    guessed = null;
    showGuess([]);
    return output.clear();
  }
  output.wait();
  if (source.value === "auto" && !(await identify(text, signal))) {
    output.clear();
    return state(say("unknown_source"));
  }
  if (source.value !== "auto") showGuess([]);
  if (readAsked().source === target.value && !isTargetChosen) chooseOther();
  document.dispatchEvent(new Event("asked"));
  const asked = readAsked();
  given.lang = asked.source;
  given.dir = findDirection(asked.source);
  const parts = listParts(text, asked.format, settings.texts).map((lines) => ({ lines }));
  // Not while parts wait: theirs would be missing.
  const most = MOST_KNOWN + parts.flatMap((part) => part.lines).length;
  for (const key of known.keys()) {
    if (known.size <= most) break;
    known.delete(key);
  }
  for (const part of parts) {
    for (const line of part.lines) Object.assign(recallLine(line, asked) ?? {}, { isKept: true });
    part.answers = recallAll(part.lines, asked);
  }
  if (parts.some((part) => part.answers)) output.show(parts, asked);
  await answerAll(parts, asked, signal);
  const answers = parts.flatMap((part) => part.answers).filter((answer) => "isKept" in answer);
  find("known").hidden = !(answers.length && answers.every((answer) => answer.isKept));
  settling = setTimeout(() => {
    const entry = { source: asked.source, target: asked.target, text };
    document.dispatchEvent(new CustomEvent("settled", { detail: entry }));
    const used = new Set([asked.source, asked.target, ...recall("used", [])]);
    remember("used", [...used].slice(0, MOST_USED));
  }, SETTLED_MS);
}

/** Asks for what is not known, a few parts at a time, and shows each as it comes. */
async function answerAll(parts, asked, aborted) {
  const failing = new AbortController();
  const signal = AbortSignal.any([aborted, failing.signal]);
  const waiting = parts.filter((part) => !part.answers);
  const all = parts.length;
  const work = async () => {
    for (let part; (part = waiting.shift()); ) {
      part.answers = await askFor(part.lines, asked, signal, (begun) => {
        part.begun = listBegun(part.lines, asked, begun);
        output.show(parts, asked);
      });
      signal.throwIfAborted();
      output.show(parts, asked);
      const done = parts.filter((one) => one.made).length;
      state(done < all ? say("part", { done: writeNumber(done), all: writeNumber(all) }) : "");
    }
  };
  // If one part fails, the others must not go on beside the next attempt's.
  await Promise.all(Array.from({ length: AT_ONCE }, work)).finally(() => failing.abort());
}

async function askFor(lines, asked, signal, show) {
  const missing = [...new Set(lines.filter((line) => !recallLine(line, asked)))];
  // Another part may have had the same lines.
  if (missing.length) await learn(missing, asked, signal, show);
  return recallAll(lines, asked);
}

/** Asks for lines. `show` gets the beginnings of a long answer, by line, whenever one grows. */
async function learn(missing, asked, signal, show) {
  const json = { ...asked.fields, src_text: missing, explain: true };
  const request = { method: "POST", json, signal };
  const begun = new Map();
  const grow = ({ index, translated }) => {
    signal.throwIfAborted();
    show(begun.set(missing[index], translated));
  };
  const isLong = missing.join("").length > STREAMED_CHARACTERS;
  const answer = await (isLong ? askStream("translate", request, grow) : askJson("translate", request));
  document.dispatchEvent(new CustomEvent("answered", { detail: answer }));
  const warnings = missing.map(() => []);
  for (const warning of answer.warnings ?? []) {
    const [, index, said] = /^src_text\[(\d+)\]: ([^]*)$/.exec(warning) ?? [null, 0, warning];
    warnings[index].push(said);
  }
  for (const [index, line] of missing.entries()) {
    known.set(JSON.stringify([asked.fields, line]), {
      translated: answer.translated[index],
      warnings: warnings[index],
      sentences: answer.sentences?.[index],
      isKept: answer.timing?.includes("cache;desc=hit") ?? false,
    });
  }
}

/** The lines that have begun, none below one that seems to go on: so nothing moves. */
function listBegun(lines, asked, begun) {
  const shown = [];
  for (const line of lines) {
    const known = recallLine(line, asked)?.translated;
    const text = known ?? begun.get(line);
    if (text === undefined) break;
    shown.push(text);
    const [made, given] = [listSentences(text, asked.target), listSentences(line, asked.source)];
    if (known === undefined && made.length < given.length) break;
  }
  return shown;
}

function recallLine(line, asked) {
  if (!line.trim()) return { translated: line };
  return known.get(JSON.stringify([asked.fields, line]));
}

function recallAll(lines, asked) {
  const answers = lines.map((line) => recallLine(line, asked));
  return answers.every(Boolean) ? answers : null;
}

/** Whether the language of the text is clear. */
async function identify(text, signal) {
  let languages = await askForLanguages({}, text, signal);
  const likely = languages.filter((one) => one.confidence >= 0.01).map((one) => one.language);
  const used = recall("used", []).filter((code) => likely.includes(code));
  if (languages[0]?.confidence < LEAST_CONFIDENCE && used.length) {
    const others = languages.filter((one) => !used.includes(one.language));
    languages = [...(await askForLanguages({ languages: used }, text, signal)), ...others];
  }
  const isClear = languages.length > 0 && languages[0].confidence >= LEAST_CONFIDENCE;
  const isSilent = languages.length === 0; // no letters: nothing to translate, nothing to ask
  guessed = isClear ? languages[0] : null;
  showGuess(languages);
  return isClear || isSilent;
}

async function askForLanguages(fields, text, signal) {
  // The end may be half of a surrogate pair.
  const json = { src_text: text.slice(0, ENOUGH).toWellFormed(), ...fields };
  const { languages } = await askJson("identify", { method: "POST", json, signal });
  return languages;
}

/** Nobody translates into the language of the text: until somebody chooses, the browser does. */
function chooseOther() {
  const wanted = [...navigator.languages.map((tag) => tag.split("-")[0]), ...settings.languages];
  const others = wanted.filter((code) => settings.languages.includes(code) && code !== target.value);
  choose(target, others[0]);
}

/** The language that was found, and others that it may be. */
function showGuess(languages) {
  const guess = find("guess");
  const others = languages.slice(guessed ? 1 : 0, 3).filter((one) => one.confidence >= 0.01);
  const sentence = guessed && languages.length
    ? say("guessed", { language: nameLanguage(guessed.language), share: writeShare(guessed.confidence) })
    : "";
  const buttons = others.map((one) =>
    make("button", { type: "button", onclick: () => pick(one.language) }, nameLanguage(one.language)),
  );
  guess.replaceChildren(sentence, buttons.length && sentence ? ` · ${say("instead")}` : "", ...buttons);
}

function pick(language) {
  choose(source, language);
  translateNow();
}

function state(sentence, kind = "") {
  find("known").hidden = true;
  find("state").replaceChildren(make("span", { class: kind }, sentence));
}
