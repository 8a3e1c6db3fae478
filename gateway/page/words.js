// The page's own words, in the language of the browser or in the one that was chosen.

import { askJson, persist } from "./api.js";
import { find, recall, remember } from "./dom.js";

let words = { unreachable: find("notice").textContent };
let wanted;
let language = document.documentElement.lang;
let names = new Intl.DisplayNames(language, { type: "language", fallback: "none" });
/** The page's own names, for languages that the browser has none for. */
const given = new Map([...document.querySelectorAll("option")].map((one) => [one.value, one.text]));

/** A sentence of the page, with values in place of `{names}`. */
export function say(key, values = {}) {
  return (words[key] ?? key).replace(/\{(\w+)\}/g, (whole, name) => values[name] ?? whole);
}

/** A language's name, in the page's language. */
export function nameLanguage(code) {
  let name;
  try {
    name = names.of(code);
  } catch {
    // A code that the browser does not know.
  }
  name ??= given.get(code) ?? code;
  return name.charAt(0).toLocaleUpperCase(language) + name.slice(1);
}

export function writeNumber(value, digits = 0) {
  return value.toLocaleString(language, { maximumFractionDigits: digits });
}

export function writeShare(value) {
  return value.toLocaleString(language, { style: "percent" });
}

/** Speaks the language that was chosen here, else the one that the page came in. */
export async function begin(tongue) {
  await load(recall("language", language), tongue);
  tongue.addEventListener("change", () => {
    remember("language", tongue.value);
    load(tongue.value, tongue);
  });
}

async function load(tag, tongue) {
  const known = [...tongue.options].map((option) => option.value);
  const chosen = (wanted = known.includes(tag) ? tag : "en");
  const found = await persist(() => askJson(new URL(`./${chosen}.json`, import.meta.url)));
  if (chosen !== wanted) return; // another one was chosen meanwhile
  words = found;
  names = new Intl.DisplayNames(chosen, { type: "language", fallback: "none" });
  if (chosen !== language) show(chosen);
  language = tongue.value = chosen;
  document.dispatchEvent(new Event("words"));
}

function show(chosen) {
  document.documentElement.lang = chosen;
  document.documentElement.dir = chosen === "ar" ? "rtl" : "ltr";
  for (const element of document.querySelectorAll("[data-word]")) {
    element.textContent = say(element.dataset.word);
  }
  for (const element of document.querySelectorAll("[data-label]")) {
    element.title = say(element.dataset.label);
    element.setAttribute("aria-label", element.title);
  }
  for (const element of document.querySelectorAll("[data-hint]")) {
    element.placeholder = say(element.dataset.hint);
  }
  for (const select of document.querySelectorAll("select:not(#tongue, #format, #quality, .glossary)")) {
    nameOptions(select);
  }
}

function nameOptions(select) {
  const chosen = select.value;
  const options = [...select.options];
  for (const option of options) {
    if (option.value !== "auto") option.textContent = nameLanguage(option.value);
  }
  const first = options.filter((option) => option.value === "auto");
  const rest = options.filter((option) => option.value !== "auto");
  rest.sort((one, other) => one.textContent.localeCompare(other.textContent));
  select.replaceChildren(...first, ...rest);
  select.value = chosen;
}
