// The view of the stack: differences between looks at GET /status become rates and charts.

import { askJson, explain, readKey, rest, tell, Unreachable } from "./api.js";
import { draw, find, make, settings } from "./dom.js";
import { nameLanguage, say, writeNumber, writeShare } from "./words.js";

const LOOK_MS = 2000;
/** Five minutes of looks. */
const MOST = 150;
/** Looks that fill a chart; before, it grows from the right. */
const FEWEST = 20;
/** Looks that a rate or a quantile is made of. */
const WINDOW = 5;
const [WIDTH, HEIGHT] = [100, 24];
let looks = [];
let controller = null;

export function begin() {
  document.addEventListener("view", ({ detail }) => {
    controller?.abort();
    controller = detail === "status" ? new AbortController() : null;
    if (controller) watch(controller.signal);
  });
  document.addEventListener("words", () => looks.length && show());
}

async function watch(signal) {
  let refused; // a key: to ask with it again would open its dialog again
  while (!signal.aborted) {
    if (!settings.keys || (readKey() && readKey() !== refused)) refused = await look(signal);
    await rest(LOOK_MS, signal).catch(() => {});
  }
}

/** Show the stack once, and return the key if it is refused. */
async function look(signal) {
  try {
    const found = await askJson("status", { signal });
    const before = looks.at(-1)?.served ?? [];
    // A stack that was restarted counts from 0 again.
    const isAnew = found.served.some((one, index) => one.requests < (before[index]?.requests ?? 0));
    looks = [...(isAnew || before.length !== found.served.length ? [] : looks), found].slice(-MOST);
    tell(null);
    show();
  } catch (error) {
    if (signal.aborted) return;
    tell(explain(error));
    if (error instanceof Unreachable) looks = [];
    if (error.status !== 401) return;
    document.dispatchEvent(new Event("needs-key"));
    return readKey();
  }
}

/** Changes per second between the looks of each window, for whatever `count` finds in one. */
function listRates(count) {
  return looks.slice(1).map((now, index) => {
    const then = looks[Math.max(0, index + 1 - WINDOW)];
    return (count(now) - count(then)) / (now.at_s - then.at_s || 1);
  });
}

function listQuantiles(findCounts) {
  return looks.slice(1).map((now, index) => {
    const then = findCounts(looks[Math.max(0, index + 1 - WINDOW)]);
    return findQuantile(findCounts(now).map((count, bucket) => count - then[bucket]), now.bounds_s);
  });
}

/** The bound below which 99 % of the requests in buckets of ever more are; 0 without any. */
function findQuantile(counts, bounds_s) {
  const all = counts.at(-1);
  const bucket = counts.findIndex((count) => count >= 0.99 * all);
  return all ? (bounds_s[bucket] ?? bounds_s.at(-1)) : 0;
}

function show() {
  const served = looks.at(-1).served;
  const rows = served.map((one, index) => {
    const pick = (look) => look.served[index];
    const rates = listRates((look) => pick(look).requests);
    const quantiles = listQuantiles((look) => pick(look).latency);
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, writeLight(one), nameServed(one)),
      make("td", {}, one.device),
      make("td", {}, writeNumber(one.workers)),
      make("td", {}, writeNumber(one.waiting_rows + one.queued_rows)),
      make("td", {}, writeFill(pick, one)),
      make("td", {}, writeTrend(rates, writeRate)),
      make("td", {}, writeTrend(quantiles, writeSeconds)),
    );
  });
  find("figures").replaceChildren(...rows);
  showOverview(served);
}

function showOverview(served) {
  const sum = (field) => (look) => look.served.reduce((all, one) => all + one[field], 0);
  const latency = (look) =>
    look.served[0].latency.map((_, bucket) => look.served.reduce((all, one) => all + one.latency[bucket], 0));
  // Languages may share a model, whose rows wait once.
  const countWaiting = (look) => {
    const models = new Map(look.served.map((one) => [one.model, one]));
    return [...models.values()].reduce((all, one) => all + one.waiting_rows + one.queued_rows, 0);
  };
  const cards = [
    ["requests_per_s", listRates(sum("requests")), writeRate],
    ["errors_per_s", listRates(sum("errors")), writeRate],
    ["p99", listQuantiles(latency), writeSeconds],
    ["queue", looks.map(countWaiting), (value) => writeNumber(value)],
  ].map(([word, values, write]) =>
    make("div", { class: "card" }, make("span", { class: "note" }, say(word)), make("b", {}, write(values.at(-1) ?? 0)), writeChart(values)),
  );
  find("overview").replaceChildren(...cards);
}

function nameServed(one) {
  if (one.language) return nameLanguage(one.language);
  return one.task === "translation" ? one.model : say(one.task);
}

function writeLight(one) {
  const word = say(one.ready ? "ready" : "not_ready");
  return make("span", { class: one.ready ? "light on" : "light", role: "img", "aria-label": word, title: word });
}

/** How full the batches of the last looks were. */
function writeFill(pick, one) {
  const then = pick(looks[Math.max(0, looks.length - 1 - WINDOW)]);
  const batches = one.batches - then.batches;
  if (!one.batch_size || !batches) return "–";
  const rows = (one.rows - then.rows) / batches;
  return `${writeNumber(rows, 1)} / ${writeNumber(one.batch_size)} · ${writeShare(rows / one.batch_size)}`;
}

function writeRate(value) {
  return writeNumber(value, value < 10 ? 1 : 0);
}

function writeSeconds(value) {
  if (!value) return "–";
  return value < 1 ? `${writeNumber(value * 1000)} ms` : `${writeNumber(value, 1)} s`;
}

function writeTrend(values, write) {
  return make("span", { class: "trend" }, make("b", {}, write(values.at(-1) ?? 0)), writeChart(values));
}

function writeChart(values) {
  const most = Math.max(...values, 1e-9);
  const points = values.map((value, index) => {
    const x = WIDTH - (values.length - 1 - index) * (WIDTH / (Math.max(values.length, FEWEST) - 1));
    return `${x.toFixed(1)},${(HEIGHT - (value / most) * HEIGHT).toFixed(1)}`;
  });
  const begin = points[0]?.split(",")[0] ?? WIDTH;
  return draw(
    "svg",
    { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    draw("polygon", { points: `${begin},${HEIGHT} ${points.join(" ")} ${WIDTH},${HEIGHT}` }),
    draw("polyline", { points: points.join(" ") }),
  );
}
