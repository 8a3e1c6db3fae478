// Menus with many languages get a field that finds one by its name, in the page's language or
// its own, or by its code. The menus themselves stay, and browsers on phones have better ones.

import { find, make, showBelow } from "./dom.js";

/** A menu with fewer entries is seen at a glance. */
const MANY = 20;
const [picker, search, list] = ["picker", "picker-search", "picker-list"].map(find);
const own = new Map();
let menu = null;

export function begin() {
  if (matchMedia("(pointer: coarse)").matches) return;
  for (const select of document.querySelectorAll("select")) {
    if (select.options.length > MANY) extend(select);
  }
  search.addEventListener("input", show);
  search.addEventListener("keydown", move);
  list.addEventListener("click", ({ target }) => pick(target.closest("[role=option]")));
}

function extend(select) {
  let wasOpen = false;
  select.addEventListener("mousedown", (event) => {
    wasOpen = menu === select && picker.matches(":popover-open");
    event.preventDefault();
  });
  select.addEventListener("click", () => wasOpen || open(select));
  select.addEventListener("keydown", (event) => {
    const { key } = event;
    const isTyped = key.length === 1 && !event.ctrlKey && !event.metaKey;
    if (!isTyped && !["Enter", "ArrowDown", "ArrowUp", "F4"].includes(key)) return;
    event.preventDefault();
    open(select, isTyped ? key.trim() : "");
  });
}

function open(select, typed = "") {
  menu = select;
  search.value = typed;
  showBelow(picker, select);
  show();
  search.focus();
}

/** Shows what fits the words in the field, first what begins with them. */
function show() {
  const wanted = simplify(search.value);
  const found = [...menu.options].flatMap((option) => {
    const names = [option.text, option.value, nameItself(option.value)].map(simplify);
    if (names.some((name) => name.startsWith(wanted))) return [[0, option]];
    return names.some((name) => name.includes(wanted)) ? [[1, option]] : [];
  });
  found.sort(([one], [other]) => one - other);
  list.replaceChildren(
    ...found.map(([, { value, text }], index) =>
      make("li", { role: "option", id: `picker-${index}`, "data-value": value, "aria-selected": "false" }, text),
    ),
  );
  const chosen = wanted ? null : list.querySelector(`[data-value="${menu.value}"]`);
  mark(chosen ?? list.firstElementChild);
}

function mark(entry) {
  for (const one of list.querySelectorAll("[aria-selected=true]")) one.setAttribute("aria-selected", "false");
  entry?.setAttribute("aria-selected", "true");
  entry?.scrollIntoView({ block: "nearest" });
  search.setAttribute("aria-activedescendant", entry?.id ?? "");
}

function move(event) {
  if (event.isComposing) return; // Enter ends a word of an input method
  const here = list.querySelector("[aria-selected=true]");
  if (event.key === "ArrowDown") mark(here?.nextElementSibling ?? here);
  else if (event.key === "ArrowUp") mark(here?.previousElementSibling ?? here);
  else if (event.key === "Enter") pick(here);
  // A field for searches would only be emptied.
  else if (event.key === "Escape") picker.hidePopover();
  else return;
  event.preventDefault();
}

function pick(entry) {
  if (!entry) return;
  picker.hidePopover();
  menu.focus();
  if (menu.value === entry.dataset.value) return;
  menu.value = entry.dataset.value;
  menu.dispatchEvent(new Event("change", { bubbles: true }));
}

/** Without accents and capitals. */
function simplify(name) {
  return name.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
}

/** A language's name in itself, where the browser has it. */
function nameItself(code) {
  if (!own.has(code)) {
    let name = code;
    try {
      name = new Intl.DisplayNames(code, { type: "language" }).of(code);
    } catch {
      // A code that the browser does not know.
    }
    own.set(code, name);
  }
  return own.get(code);
}
