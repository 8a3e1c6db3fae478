// The view for glossaries: a table of terms and their translations. Every view that has a
// select for glossaries gets those of its languages.

import { ask, askJson, explain, persist, readKey, tell } from "./api.js";
import { find, make, recall, save, settings, takeFiles } from "./dom.js";
import { readTable, writeCsv, writeTsv } from "./tables.js";
import { nameLanguage, say, writeNumber } from "./words.js";

/** Rows in the table; the search finds the others. */
const MOST_ROWS = 200;
const [form, list, search] = ["glossary-form", "glossary-list", "entry-search"].map(find);
const [name, source, target] = ["name", "source", "target"].map((field) => find(`glossary-${field}`));
const remove = find("delete-glossary");
/** All glossaries; the one in the form, null for a new one; its entries as [term, translation]. */
let glossaries = [];
let current = null;
let entries = [];
let isStoring = false;
let opening = new AbortController();

export function begin() {
  find("new-glossary").addEventListener("click", () => open(null));
  find("add-entry").addEventListener("click", add);
  find("export-csv").addEventListener("click", () => save(writeCsv(entries), `${name.value || "glossary"}.csv`));
  find("export-tsv").addEventListener("click", () => save(writeTsv(entries), `${name.value || "glossary"}.tsv`));
  takeFiles(find("import").parentElement, importFile);
  search.addEventListener("input", showEntries);
  remove.addEventListener("click", deleteCurrent);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    store();
  });
  for (const id of ["document-source", "document-target"]) find(id).addEventListener("change", offer);
  document.addEventListener("asked", offer);
  document.addEventListener("words", show);
  document.addEventListener("key", load);
  document.addEventListener("view", ({ detail }) => (detail === "glossaries" ? load() : offer()));
  if (settings.languages.length) load();
}

async function load() {
  if (settings.keys && !readKey()) return;
  try {
    ({ glossaries } = await persist(() => askJson("glossaries")));
    // New rows of entries would take the focus from a user who types one.
    showList();
  } catch (error) {
    if (!find("glossaries").hidden) tell(explain(error)); // a key may be for texts only
  }
}

function show() {
  showList();
  showEntries();
}

function showList() {
  const items = glossaries.map((glossary) => {
    const [pair] = glossary.dictionaries;
    const languages = pair ? `${nameLanguage(pair.src_lang)} → ${nameLanguage(pair.tgt_lang)}` : "";
    const isOpen = current?.id === glossary.id;
    return make(
      "li",
      { "aria-current": isOpen ? "true" : null },
      make("button", { type: "button", class: "name", dir: "auto", onclick: () => open(glossary) }, glossary.name),
      make("span", { class: "note wide" }, `${languages} · ${writeNumber(pair?.entry_count ?? 0)}`),
    );
  });
  const none = make("li", { class: "note" }, say("no_glossaries"));
  list.replaceChildren(...(items.length ? items : [none]));
  offer();
}

/** The glossaries that fit the languages beside a select. */
function offer() {
  for (const [id, from, into] of [
    ["glossary", "source", "target"],
    ["document-glossary", "document-source", "document-target"],
  ]) {
    const select = find(id);
    const chosen = select.value;
    const fits = (pair) =>
      pair.tgt_lang === find(into).value && ["auto", pair.src_lang].includes(find(from).value);
    const options = glossaries
      .filter((glossary) => glossary.dictionaries.some(fits))
      .map((glossary) => make("option", { value: glossary.id }, glossary.name));
    select.replaceChildren(make("option", { value: "" }, say("no_glossary")), ...options);
    if ([...select.options].some((option) => option.value === chosen)) select.value = chosen;
  }
}

/** Shows a glossary in the form once its entries are here: saving replaces them all. */
async function open(glossary) {
  opening.abort();
  opening = new AbortController();
  const { signal } = opening;
  const pair = glossary?.dictionaries[0];
  let rows = [["", ""]];
  try {
    if (pair) {
      const path = `glossaries/${glossary.id}/entries?src_lang=${pair.src_lang}&tgt_lang=${pair.tgt_lang}`;
      const answer = await persist(() => ask(path, { signal }), signal);
      rows = readTable(await answer.text());
    }
  } catch (error) {
    return tell(signal.aborted ? null : explain(error));
  }
  current = glossary;
  entries = rows;
  search.value = "";
  delete remove.dataset.sure;
  remove.hidden = !glossary;
  form.hidden = false;
  name.value = glossary?.name ?? "";
  name.disabled = source.disabled = target.disabled = Boolean(glossary);
  source.value = pair?.src_lang ?? "en";
  target.value = pair?.tgt_lang ?? recall("target", target.value);
  report("");
  show();
  if (!glossary) name.focus();
}

function showEntries() {
  const wanted = search.value.toLocaleLowerCase();
  const shown = entries.filter((entry) => entry.some((cell) => cell.toLocaleLowerCase().includes(wanted)));
  const rows = shown.slice(0, MOST_ROWS).map((entry) => {
    const cell = (index, label, language) =>
      make("td", {}, writeField(entry, index, { "aria-label": say(label), lang: language, dir: "auto" }));
    return make(
      "tr",
      {},
      cell(0, "term", source.value),
      cell(1, "term_translation", target.value),
      make("td", {}, make("button", { type: "button", class: "quiet", "aria-label": `${say("remove")}: ${entry[0]}`, onclick: () => drop(entry) }, "×")),
    );
  });
  find("entries").replaceChildren(...rows);
  find("entry-count").textContent = say("entries_shown", {
    shown: writeNumber(rows.length),
    all: writeNumber(entries.length),
  });
  remove.textContent = say(remove.dataset.sure ? "really_delete" : "delete");
}

function writeField(entry, index, attributes) {
  const field = make("input", {
    ...attributes,
    maxlength: 1024,
    oninput: () => (entry[index] = field.value),
  });
  field.value = entry[index] ?? "";
  return field;
}

function add() {
  entries.unshift(["", ""]);
  search.value = "";
  showEntries();
  find("entries").querySelector("input").focus();
}

function drop(entry) {
  entries = entries.filter((one) => one !== entry);
  showEntries();
  find("add-entry").focus();
}

/** Terms of the file win over those of the table. */
async function importFile([file]) {
  if (!file) return;
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    const rows = readTable(text).map(([term, translation]) => [term, translation ?? ""]);
    const others = new Map(entries.filter(([term]) => term));
    for (const [term, translation] of rows) others.set(term, translation);
    entries = [...others];
    showEntries();
  } catch {
    report(say("error_format"), "wrong");
  }
}

async function store() {
  if (isStoring) return; // a double click would make two
  isStoring = true;
  const stored = current;
  const pair = { src_lang: source.value, tgt_lang: target.value };
  const text = writeTsv(entries.filter((entry) => entry.some(Boolean)));
  const json = { name: name.value, ...pair, entries: text };
  try {
    const { id } = await persist(() =>
      stored ? replaceEntries(stored, json) : askJson("glossaries", { method: "POST", json }),
    );
    document.dispatchEvent(new Event("terms"));
    await load();
    await open(glossaries.find((glossary) => glossary.id === id));
    report(say("saved"));
  } catch (error) {
    report(explain(error), "wrong");
    if (error.status === 401) document.dispatchEvent(new Event("needs-key"));
  }
  isStoring = false;
}

/** Only DeepL's API changes the entries of a glossary that is there. */
async function replaceEntries(glossary, { src_lang, tgt_lang, entries }) {
  await ask(`v3/glossaries/${glossary.id}/dictionaries`, {
    method: "PUT",
    json: { source_lang: src_lang, target_lang: tgt_lang, entries, entries_format: "tsv" },
  });
  return glossary;
}

async function deleteCurrent() {
  if (!remove.dataset.sure) {
    remove.dataset.sure = "yes";
    remove.textContent = say("really_delete");
    return;
  }
  const deleted = current;
  try {
    await persist(() => ask(`glossaries/${deleted.id}`, { method: "DELETE" }));
  } catch (error) {
    if (error.status !== 404) return report(explain(error), "wrong");
  }
  if (current === deleted) {
    form.hidden = true;
    current = null;
  }
  await load();
}

function report(sentence, kind = "") {
  find("glossary-state").className = `note ${kind}`;
  find("glossary-state").textContent = sentence;
}
