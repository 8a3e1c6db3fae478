// The pane of the translation: lines, sentences with their alternatives, what was kept, and
// warnings where they belong.

import { askJson, explain, persist, tell } from "./api.js";
import { find, findDirection, make, settings, showBelow } from "./dom.js";
import { divide } from "./protection.js";
import { listSentences } from "./sentences.js";
import { say, writeShare } from "./words.js";

const output = find("output");
const others = find("others");
/** A warning that names characters of its text: `characters 14-52, 60-71 and 2 more: …`. */
const PLACES = /^characters [\d, -]+/;

/** One line: what was given and its translation, in sentences where both have as many. */
class Line {
  constructor(source, answer, asked) {
    this.source = source;
    this.asked = asked;
    this.answer = answer;
    this.warnings = answer.warnings ?? [];
    this.weak = listWeak(answer, asked.limit);
    const given = listSentences(source, asked.source);
    const made = listSentences(answer.translated, asked.target);
    const isAligned = asked.format === "text" && given.length === made.length;
    this.given = isAligned ? given : [source];
    this.made = isAligned ? made : [answer.translated];
  }

  get text() {
    return this.made.join("");
  }

  isDoubtful(index) {
    // Spread, a text has the characters that the API counts.
    const start = [...this.given.slice(0, index).join("")].length;
    const end = start + [...this.given[index]].length;
    return this.warnings.some((warning) => {
      const places = [...(PLACES.exec(warning)?.[0] ?? "").matchAll(/(\d+)-(\d+)/g)];
      return !places.length || places.some(([, from, to]) => from < end && to > start);
    });
  }
}

/** What is shown: an answer, or nothing yet, for each part of a text. */
export class Output {
  #parts = [];
  #asking = new AbortController();

  constructor() {
    others.addEventListener("toggle", ({ newState }) => newState === "closed" && this.#asking.abort());
    output.addEventListener("click", (event) => this.#open(event.target));
    output.addEventListener("keydown", (event) => this.#move(event));
  }

  /** Says that what is shown is the answer to something older. */
  wait() {
    output.setAttribute("aria-busy", "true");
    for (const part of output.querySelectorAll(".fresh")) part.className = "";
  }

  /** Says that nothing more comes. */
  stop() {
    output.setAttribute("aria-busy", "false");
  }

  /** Shows the parts that have answers or begin to, each below the one before, so that nothing
      moves. A part keeps what an older text had in its place until its own answer comes, or
      begins in another way. Screen readers wait until nothing is busy. */
  show(parts, asked) {
    if (parts !== this.#parts) {
      this.#parts = parts;
      output.lang = asked.target;
      output.dir = findDirection(asked.target);
      const older = [...output.children];
      output.replaceChildren(...parts.map((_, number) => older[number] ?? make("div", { class: "missing" }, "…")));
    }
    for (const [number, part] of parts.entries()) {
      const place = output.children[number];
      if (part.answers && !part.made) {
        part.made = part.lines.map((line, index) => new Line(line, part.answers[index], asked));
        place.replaceWith(this.#write(part));
      } else if (!part.made && part.begun && !place.textContent.startsWith(part.begun.join(""))) {
        const lines = part.begun.map((line) => make("div", { class: "line" }, line || make("br")));
        place.replaceWith(make("div", { class: "growing fresh" }, ...lines));
      }
      if (!part.made && output.children[number].matches(".missing, .growing")) break;
    }
    output.setAttribute("aria-busy", String(!parts.every((part) => part.made)));
    output.querySelector(".sentence")?.setAttribute("tabindex", "0");
  }

  clear() {
    this.#parts = [];
    output.replaceChildren();
    this.stop();
  }

  /** Whether all of the text that is asked for now is shown. */
  get isWhole() {
    return output.getAttribute("aria-busy") === "false" && this.#parts.every((part) => part.made);
  }

  get text() {
    const lines = this.#parts.flatMap((part) => part.made?.map((line) => line.text) ?? part.begun ?? []);
    return lines.join("\n");
  }

  #write(part) {
    const lines = part.made.flatMap((line) => {
      const sentences = line.made.map((_, index) => this.#writeSentence(line, index));
      const isEmpty = line.text === "";
      return [
        make("div", { class: "line" }, ...sentences, isEmpty ? make("br") : null),
        ...line.warnings.map((warning) => make("div", { class: "warning", lang: "en", dir: "ltr" }, warning)),
      ];
    });
    return make("div", { class: "fresh" }, ...lines);
  }

  #writeSentence(line, index) {
    if (!line.made[index].trim()) return line.made[index];
    const sentence = make("span", {
      class: line.isDoubtful(index) ? "sentence doubtful" : "sentence",
      role: "button",
      tabindex: "-1",
    });
    sentence.place = { line, index };
    fill(sentence, line.weak);
    return sentence;
  }

  /** With the arrows from sentence to sentence, with Enter to its alternatives. */
  #move(event) {
    const sentences = [...output.querySelectorAll(".sentence")];
    const here = sentences.indexOf(event.target);
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (here < 0) return;
    if (event.key === "Enter" || event.key === " ") this.#open(event.target);
    else if (step) sentences[here + step]?.focus();
    else return;
    event.preventDefault();
  }

  async #open(target) {
    const sentence = target.closest?.(".sentence");
    if (!sentence || !settings.alternatives || String(getSelection())) return;
    const { line, index } = sentence.place;
    others.replaceChildren(make("p", { class: "note" }, say("translating")));
    showBelow(others, sentence);
    this.#asking.abort();
    this.#asking = new AbortController();
    const { signal } = this.#asking;
    const json = {
      ...line.asked.fields,
      quality: undefined,
      src_text: line.given[index].trimEnd(),
      alternatives: Math.min(3, settings.alternatives),
    };
    try {
      const answer = await persist(() => askJson("translate", { method: "POST", json, signal }), signal);
      const texts = [answer.translated, ...answer.alternatives.map((one) => one.text)];
      this.#offer(sentence, [...new Set(texts)]);
    } catch (error) {
      if (signal.aborted) tell(null);
      else others.replaceChildren(make("p", { class: "wrong" }, explain(error)));
    }
  }

  #offer(sentence, texts) {
    const { line, index } = sentence.place;
    const shown = line.made[index];
    const choose = (text) => {
      // The page knows equal lines once, also when the text is changed elsewhere.
      const alike = [sentence, ...output.querySelectorAll(".sentence")].filter(
        ({ place: one }) => one.line.answer === line.answer && one.index === index && one.line.made[index] === shown,
      );
      for (const one of alike) {
        one.place.line.made[index] = text + shown.slice(shown.trimEnd().length);
        fill(one);
      }
      line.answer.translated = line.text;
      others.hidePopover();
      sentence.focus();
    };
    const offered = texts.filter((text) => text !== shown.trimEnd());
    const direction = findDirection(line.asked.target);
    const buttons = offered.map((text) =>
      make("button", { type: "button", lang: line.asked.target, dir: direction, onclick: () => choose(text) }, text),
    );
    const none = make("p", { class: "note" }, say("no_alternatives"));
    others.replaceChildren(...(buttons.length ? buttons : [none]));
    buttons[0]?.focus();
  }
}

/** The places in a translation that are worth less than a limit, and what they are worth. */
function listWeak({ translated, sentences = [] }, limit) {
  let end = 0;
  return sentences.flatMap(({ translated: text, quality }) => {
    const start = translated.indexOf(text, end);
    if (start >= 0) end = start + text.length;
    return start >= 0 && quality < limit ? [{ start, end, quality }] : [];
  });
}

/** Writes a sentence. What somebody has chosen has no weak places. */
function fill(sentence, weak = []) {
  const { line, index } = sentence.place;
  const text = line.made[index];
  const before = line.made.slice(0, index).join("").length;
  const write = (start, end) =>
    divide(text.slice(start, end), line.source, line.asked.format).map(([piece, isKept]) =>
      isKept ? make("mark", { title: say("kept") }, piece) : piece,
    );
  const nodes = [];
  let done = 0;
  sentence.removeAttribute("title");
  for (const { start, end, quality } of weak) {
    const [from, to] = [start, end].map((place) => Math.min(Math.max(place - before, done), text.length));
    if (from === to) continue;
    const title = say("quality", { share: writeShare(quality) });
    nodes.push(...write(done, from), make("mark", { class: "weak", title }, ...write(from, to)));
    sentence.title = title;
    done = to;
  }
  sentence.replaceChildren(...nodes, ...write(done));
}
