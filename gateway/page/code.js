// The request of what is on the page as a program, for our API and for the three others.

import { readKey, root } from "./api.js";
import { copy, find, settings, recall, remember } from "./dom.js";
import { readAsked, readText } from "./text.js";

const PROGRAMS = { curl: writeCurl, python: writePython, javascript: writeJavaScript };
const KEY = "YOUR-KEY";

/** Path, fields and the place of the answer, for each API. */
const INTERFACES = {
  ours: (text, { fields }) => ["translate", { src_text: text, ...fields }, ["translated"]],
  libretranslate: (text, { source, target, format }) => [
    "translate",
    { q: text, source, target, format: format === "html" ? "html" : "text" },
    ["translatedText"],
  ],
  deepl: (text, { source, target, format, fields }) => [
    "v2/translate",
    {
      text: [text],
      ...(source === "auto" ? {} : { source_lang: source.toUpperCase() }),
      target_lang: nameForDeepL(target),
      ...(format === "text" ? {} : { tag_handling: format }),
      ...(fields.glossary ? { glossary_id: fields.glossary } : {}),
    },
    ["translations", 0, "text"],
  ],
  google: (text, { source, target, format }) => [
    "language/translate/v2",
    {
      q: text,
      ...(source === "auto" ? {} : { source }),
      target,
      format: format === "html" ? "html" : "text",
    },
    ["data", "translations", 0, "translatedText"],
  ],
};

/** DeepL wants a variant where a language has several. */
function nameForDeepL(target) {
  return { en: "EN-US", pt: "PT-PT" }[target] ?? target.toUpperCase();
}

export function begin() {
  for (const name of ["interface", "program"]) {
    for (const choice of document.getElementsByName(name)) {
      choice.checked = choice.value === recall(name, choice.checked ? choice.value : "");
      choice.addEventListener("change", () => {
        remember(name, choice.value);
        show();
      });
    }
  }
  find("code").addEventListener("toggle", show);
  find("copy-code").addEventListener("click", () => copy(find("code-text").textContent));
  document.addEventListener("asked", show);
  document.addEventListener("answered", ({ detail }) => showTiming(detail));
}

function show() {
  if (!find("code").open) return;
  const [name, program] = ["interface", "program"].map(
    (group) => document.querySelector(`[name=${group}]:checked`)?.value,
  );
  const [path, fields, place] = INTERFACES[name ?? "ours"](readText() || "Hello", readAsked());
  const url = new URL(path, root).href;
  find("code-text").textContent = PROGRAMS[program ?? "curl"](url, fields, place);
}

/** What an answer says about its making: `cache hit · gateway 0.8 ms · m2m100@0f3a…`. */
function showTiming({ timing = "", model }) {
  const times = timing.replaceAll(/;dur=([\d.]+)/g, " $1 ms").replace(";desc=", " ").split(", ");
  find("timing").hidden = !timing;
  find("timing-text").textContent = [...times, model].filter(Boolean).join(" · ");
}

function needsKey() {
  return settings.keys || Boolean(readKey());
}

function writeCurl(url, fields) {
  const body = JSON.stringify(fields, null, 2).replaceAll("'", "'\\''");
  const key = needsKey() ? ` \\\n  -H 'Authorization: Bearer ${KEY}'` : "";
  return `curl '${url}' \\\n  -H 'Content-Type: application/json'${key} \\\n  -d '${body}'`;
}

function writePython(url, fields, place) {
  const key = needsKey() ? `\n    headers={"Authorization": "Bearer ${KEY}"},` : "";
  const body = Object.entries(fields)
    .map(([name, value]) => `        ${JSON.stringify(name)}: ${writeLiteral(value)},`)
    .join("\n");
  const answer = place.map((step) => `[${JSON.stringify(step)}]`).join("");
  return `import requests

answer = requests.post(
    ${JSON.stringify(url)},
    json={
${body}
    },${key}
)
answer.raise_for_status()
print(answer.json()${answer})`;
}

/** JSON is Python, but for two words. */
function writeLiteral(value) {
  const json = JSON.stringify(value);
  return { true: "True", false: "False" }[json] ?? json;
}

function writeJavaScript(url, fields, place) {
  const body = JSON.stringify(fields, null, 2).replaceAll("\n", "\n  ");
  const key = needsKey() ? `, "Authorization": "Bearer ${KEY}"` : "";
  const answer = place.map((step) => (typeof step === "number" ? `[${step}]` : `.${step}`)).join("");
  return `const answer = await fetch(${JSON.stringify(url)}, {
  method: "POST",
  headers: { "Content-Type": "application/json"${key} },
  body: JSON.stringify(${body}),
});
console.log((await answer.json())${answer});`;
}
