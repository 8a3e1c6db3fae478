// The view for pictures: what each task of the map says of one. Nothing is drawn into the
// picture; boxes lie over it.

import { askJson, explain, persist, rest, root } from "./api.js";
import { copy, draw, find, make, settings, takeFiles } from "./dom.js";
import { say, writeShare } from "./words.js";

/** Objects below are never asked for: the slider shows the others without asking again. */
const LEAST = 0.05;
const LABELS = 5;
const picture = find("picture");
const threshold = find("threshold");
let found = null;
let controller = new AbortController();

export function begin() {
  takeFiles(find("picture-drop"), ([file]) => file && take(file));
  threshold.addEventListener("input", showObjects);
  find("copy-video").addEventListener("click", () => copy(find("video-command").textContent));
  document.addEventListener("paste", (event) => {
    const [file] = [...event.clipboardData.files];
    if (!find("pictures").hidden && file) take(file);
  });
  find("labels-part").hidden = !settings.tasks.includes("classification");
  find("objects-part").hidden = !settings.tasks.includes("detection");
  find("caption").hidden = !settings.tasks.includes("captioning");
  document.addEventListener("words", () => {
    picture.alt = say("picture");
    showObjects();
  });
}

function take(file) {
  const isVideo = file.type.startsWith("video/");
  find("video").hidden = !isVideo;
  find("seen").hidden = isVideo;
  if (isVideo) return showCommand(file.name);
  URL.revokeObjectURL(picture.src);
  picture.src = URL.createObjectURL(file);
  controller.abort();
  controller = new AbortController();
  found = null;
  showObjects();
  look(file, controller.signal);
}

/** The name of a file may hold anything: the shell must see one word. */
function showCommand(name) {
  const word = `'${name.replaceAll("'", "'\\''")}'`;
  const captions = `'${name.replace(/\.[^.]*$/, "").replaceAll("'", "'\\''")}.srt'`;
  find("video-command").textContent =
    `python -m clients caption ${word} -o ${captions} --every 1s --url ${root.href.replace(/\/$/, "")}`;
}

function look(file, signal) {
  const send = (path) => persist(() => askJson(path, { method: "POST", body: file, signal }), signal);
  const tasks = {
    captioning: ["caption", find("caption"), (answer, place) => (place.textContent = answer.captions[0])],
    classification: [
      `classify?top_k=${LABELS}`,
      find("labels"),
      (answer, place) => place.replaceChildren(...answer.labels.map(writeBar)),
    ],
    detection: [
      `detect-objects?threshold=${LEAST}`,
      find("objects"),
      (answer) => {
        found = answer;
        showObjects();
      },
    ],
  };
  return Promise.all(
    settings.tasks.map(async (task) => {
      const [path, place, show] = tasks[task];
      const kind = place.tagName === "UL" ? "li" : "span";
      place.replaceChildren(make(kind, { class: "note" }, "…"));
      try {
        await rest(0, signal);
        show(await send(path), place);
      } catch (error) {
        if (!signal.aborted) place.replaceChildren(make(kind, { class: "wrong" }, explain(error)));
      }
    }),
  );
}

function writeBar({ label, score }) {
  return make("li", {}, make("span", {}, label), make("span", {}, writeShare(score)),
    make("meter", { min: 0, max: 1, value: score, "aria-label": label }));
}

function showObjects() {
  const least = threshold.value / 100;
  find("threshold-value").textContent = writeShare(least);
  find("frame").querySelector("svg")?.remove();
  if (!found) return;
  const shown = found.objects.filter((one) => one.score > least);
  const boxes = shown.map(({ label, box }) =>
    draw("rect", { x: box.left, y: box.top, width: box.right - box.left, height: box.bottom - box.top }, draw("title", {}, label)),
  );
  const size = `0 0 ${found.width} ${found.height}`;
  find("frame").append(draw("svg", { viewBox: size, preserveAspectRatio: "none", "aria-hidden": "true" }, ...boxes));
  const none = make("li", { class: "note" }, say("nothing_found"));
  find("objects").replaceChildren(...(shown.length ? shown.map(writeBar) : [none]));
}
