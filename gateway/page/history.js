// What was translated, in this browser only, and only if somebody wants it.

import { find, make, recall, remember } from "./dom.js";
import { open } from "./text.js";
import { nameLanguage } from "./words.js";

/** A browser keeps some five million characters, with the ids of documents among them. */
const [MOST, MOST_CHARACTERS] = [50, 1_000_000];

export function begin() {
  const keeps = find("keeps-history");
  keeps.checked = recall("keeps_history", false);
  keeps.addEventListener("change", () => {
    remember("keeps_history", keeps.checked || null);
    if (!keeps.checked) forget();
  });
  find("forget").addEventListener("click", forget);
  document.addEventListener("settled", ({ detail }) => {
    if (keeps.checked) add(detail);
  });
  document.addEventListener("words", show);
}

/** A text that goes on where the last one ended takes its place. */
function add(entry) {
  const isSame = (past) => past.target === entry.target && entry.text.startsWith(past.text);
  const others = recall("history", []).filter((past) => !isSame(past));
  let left = MOST_CHARACTERS;
  const kept = [entry, ...others].slice(0, MOST).filter(({ text }) => (left -= text.length) > 0);
  remember("history", kept);
  show();
}

function forget() {
  remember("history", null);
  show();
}

function show() {
  const entries = recall("history", []).map((entry) =>
    make(
      "li",
      {},
      make("span", { class: "note" }, `${nameLanguage(entry.source)} → ${nameLanguage(entry.target)}`),
      make("button", { type: "button", class: "wide", dir: "auto", onclick: () => open(entry) }, entry.text.slice(0, 200)),
    ),
  );
  find("past").replaceChildren(...entries);
}
