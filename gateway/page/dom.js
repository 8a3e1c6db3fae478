// Elements of the page. Text becomes text nodes only, whatever is in it.

export const settings = JSON.parse(document.body.dataset.settings);

export function find(id) {
  return document.getElementById(id);
}

/** An element with attributes, listeners (`onclick: …`) and children; null is left out. */
export function make(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

/** The same for SVG. */
export function draw(name, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (typeof value === "boolean") element.toggleAttribute(name, value);
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** How a language is written. */
export function findDirection(language) {
  if (language === "auto" || !language) return "auto";
  return settings.from_right.includes(language) ? "rtl" : "ltr";
}

/** A value that stays in this browser; what is not JSON counts as absent. */
export function recall(name, fallback) {
  try {
    return JSON.parse(localStorage.getItem(`babelgate.${name}`)) ?? fallback;
  } catch {
    return fallback;
  }
}

/** Keeps a value in this browser, or forgets it if it is null. */
export function remember(name, value) {
  try {
    if (value === null) localStorage.removeItem(`babelgate.${name}`);
    else localStorage.setItem(`babelgate.${name}`, JSON.stringify(value));
  } catch {
    // Full, or forbidden: the page works without.
  }
}

/** Shows a popover below an element, and within the window. */
export function showBelow(popover, element) {
  const place = element.getBoundingClientRect();
  popover.showPopover();
  const room = document.documentElement.clientWidth - popover.offsetWidth - 8;
  popover.style.left = `${Math.max(8, Math.min(place.left, room)) + scrollX}px`;
  popover.style.top = `${place.bottom + 5 + scrollY}px`;
}

/** Copies a text, also where the page came without TLS and the clipboard is closed to it. */
export async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = make("textarea", { class: "unseen", "aria-hidden": "true" });
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

/** Gives a file to the person: the browser saves it. */
export function save(content, name) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content]));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** Lets files be dropped on an element, or chosen with the input in it. */
export function takeFiles(area, take) {
  const input = area.querySelector("input");
  input.addEventListener("change", () => {
    take([...input.files]);
    input.value = "";
  });
  for (const kind of ["dragenter", "dragover", "dragleave", "drop"]) {
    area.addEventListener(kind, (event) => {
      event.preventDefault();
      area.classList.toggle("over", kind === "dragenter" || kind === "dragover");
      if (kind === "drop") take([...event.dataTransfer.files]);
    });
  }
}
