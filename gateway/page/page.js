// Wires the page: views, theme, language, key. Each view has a module of its own.

import { keepKey, readKey, tell } from "./api.js";
import * as code from "./code.js";
import * as documents from "./documents.js";
import { find, remember, settings } from "./dom.js";
import * as glossaries from "./glossaries.js";
import * as history from "./history.js";
import * as picker from "./picker.js";
import * as pictures from "./pictures.js";
import * as status from "./status.js";
import * as text from "./text.js";
import * as words from "./words.js";

const THEMES = ["auto", "light", "dark"];
const links = [...document.querySelectorAll("nav a")];

function listViews() {
  const isText = settings.languages.length > 0;
  const views = isText ? ["text", "documents", "glossaries"] : [];
  return [...views, ...(settings.tasks.length ? ["pictures"] : []), "status"];
}

function beginViews() {
  const views = listViews();
  for (const link of links) {
    link.hidden = !views.includes(link.hash.slice(1));
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return; // another tab or window
      event.preventDefault();
      window.history.pushState(null, "", link.hash);
      showView();
      find("main").focus();
    });
  }
  addEventListener("popstate", showView);
  showView();
}

function showView() {
  const views = listViews();
  const wanted = location.hash.slice(1);
  const view = views.includes(wanted) ? wanted : views[0];
  for (const link of links) {
    if (link.hash === `#${view}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
    find(link.hash.slice(1)).hidden = link.hash !== `#${view}`;
  }
  nameView();
  tell(null); // nobody else would take back what the view before has said
  document.dispatchEvent(new CustomEvent("view", { detail: view }));
}

function nameView() {
  const current = links.find((link) => link.hasAttribute("aria-current"));
  document.title = `${current.textContent} – Babelgate`;
}

function beginTheme() {
  const button = find("theme-button");
  const show = () => {
    button.dataset.label = `theme_${document.documentElement.dataset.theme}`;
    button.title = words.say(button.dataset.label);
    button.setAttribute("aria-label", button.title);
  };
  button.addEventListener("click", () => {
    const chosen = THEMES[(THEMES.indexOf(document.documentElement.dataset.theme) + 1) % 3];
    document.documentElement.dataset.theme = chosen;
    remember("theme", chosen);
    show();
  });
  document.addEventListener("words", show);
}

function beginKey() {
  const dialog = find("key-dialog");
  const open = () => {
    if (dialog.open) return; // somebody may be typing
    find("key-field").value = readKey();
    dialog.showModal();
  };
  find("key-button").addEventListener("click", open);
  document.addEventListener("needs-key", open);
  dialog.addEventListener("close", () => {
    if (dialog.returnValue === "keep") {
      keepKey(find("key-field").value.replace(/[^!-~]/g, "")); // the rest is invisible, or no key
      document.dispatchEvent(new Event("key"));
    }
    find("key-field").value = "";
  });
  if (settings.keys && !readKey()) open();
}

await words.begin(find("tongue"));
beginTheme();
document.addEventListener("words", nameView);
for (const part of [text, documents, glossaries, history, code, pictures, status, picker]) part.begin();
beginViews();
beginKey();
document.dispatchEvent(new Event("words"));
document.documentElement.dataset.ready = "yes";
