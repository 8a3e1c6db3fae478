// Sends a stack the questions of unmodified npm packages for other APIs. `node ask.mjs TOPIC URL
// [FOLDER | KEYS]` prints the answer to each question, or the error that the package threw, as JSON
// by package and question.
import * as fs from "node:fs";
import * as path from "node:path";
import * as deepl from "deepl-node";
import libretranslate from "libretranslate-ts";
import { Translate } from "translate";

const [topic, url, argument] = process.argv.slice(2);
const TOMORROW = "See you tomorrow";
const STATION = "Where is the station?";
const CHARGING = "Where is charging station?";
const XML = "<d><t>Good morning</t><p>My name is <x>{Anna}</x>.</p></d>";

const connect = (key, maxRetries) => new deepl.DeepLClient(key, { serverUrl: url, maxRetries });
const client = connect("any-key", 1);
const libre = libretranslate.libreTranslate;
libre.setApiEndpoint(url);
libre.setApiKey("");

// The DeepL engine of `translate` has a fixed server.
const fetchAsIs = globalThis.fetch;
globalThis.fetch = (asked, options) =>
  fetchAsIs(asked.replace("https://api.deepl.com", url), options);

async function answer(ask) {
  try {
    return await ask();
  } catch (error) {
    return `${error.constructor.name}: ${error.message}`;
  }
}

const texts = {
  "deepl-node": {
    text: () => client.translateText(TOMORROW, "en", "de"),
    auto: () => client.translateText(STATION, null, "fr"),
    list: () => client.translateText([STATION, "Wo ist der Bahnhof?"], null, "fr"),
    xml: () =>
      client.translateText(XML, "en", "de", { tagHandling: "xml", ignoreTags: ["x"] }),
    variant: () => client.translateText(TOMORROW, "en", "zh-HANS"),
    sources: () => client.getSourceLanguages(),
    targets: () => client.getTargetLanguages(),
    usage: async () => (await client.getUsage()).character.count >= TOMORROW.length,
    instructions: () =>
      client.translateText(TOMORROW, "en", "de", { customInstructions: ["Be brief."] }),
    "unknown language": () => client.translateText(TOMORROW, null, "xx"),
  },
  "libretranslate-ts": {
    text: () => libre.translate(TOMORROW, "en", "de"),
    auto: () => libre.translate(STATION, "auto", "fr"),
    alternatives: () => libre.translate(TOMORROW, "en", "de", 2),
    detect: () => libre.detect(STATION),
    languages: () => libre.listLanguages(),
    "unknown language": () => libre.translate(TOMORROW, "en", "xx"),
  },
  "translate (npm)": {
    libre: () =>
      Translate({ engine: "libre", url: `${url}/translate` })(TOMORROW, {
        from: "en",
        to: "de",
      }),
    deepl: () =>
      Translate({ engine: "deepl", key: "any-key" })(TOMORROW, { from: "en", to: "de" }),
  },
};

async function translateFile(name, content) {
  const source = path.join(argument, `node-${name}`);
  const target = path.join(argument, `translated-node-${name}`);
  fs.writeFileSync(source, content);
  const status = await client.translateDocument(source, target, "en", "de");
  return [status.status, status.billedCharacters, fs.readFileSync(target, "utf-8")];
}

const documents = {
  "deepl-node": {
    text: () => translateFile("a.txt", `${TOMORROW}\n`),
    html: () => translateFile("a.html", "<p>My name is <b>Anna</b>.</p>\n"),
    damaged: () => translateFile("a.json", "{"),
    "no format": () => translateFile("a.exe", `${TOMORROW}\n`),
  },
};

const entries = new deepl.GlossaryEntries({
  entries: { "charging station": "Ladestation" },
});
const german = { sourceLangCode: "en", targetLangCode: "de", entries };
async function askVersion2() {
  const made = await client.createGlossary("By two", "en", "de", entries);
  const glossary = made.glossaryId;
  const found = {
    made: [made.name, made.ready, made.sourceLang, made.entryCount],
    listed: (await client.listGlossaries()).map((one) => one.name),
    found: (await client.getGlossary(glossary)).name,
    entries: (await client.getGlossaryEntries(glossary)).entries(),
    text: (await client.translateText(CHARGING, "en", "de", { glossary })).text,
    both: (await client.translateText(CHARGING, "en", "de", { glossaryIds: [glossary] })).text,
  };
  await client.deleteGlossary(glossary);
  return { ...found, gone: await answer(() => client.getGlossary(glossary)) };
}

async function askVersion3() {
  const french = { ...german, targetLangCode: "fr" };
  const made = await client.createMultilingualGlossary("By three", [german, french]);
  const glossary = made.glossaryId;
  const found = {
    made: made.dictionaries.map((one) => one.targetLangCode),
    text: (await client.translateText(CHARGING, "en", "de", { glossary })).text,
    renamed: (await client.updateMultilingualGlossaryName(glossary, "Other")).name,
  };
  const table = "charging station,Ladesäule\nwork order,Auftrag\n";
  await client.updateMultilingualGlossaryDictionaryWithCsv(glossary, "en", "de", table);
  found.entries = (
    await client.getMultilingualGlossaryDictionaryEntries(glossary, "en", "de")
  ).entries.entries();
  found.replaced = (
    await client.replaceMultilingualGlossaryDictionary(glossary, german)
  ).entryCount;
  await client.deleteMultilingualGlossaryDictionary(glossary, "en", "fr");
  const left = await client.getMultilingualGlossary(glossary);
  found.left = left.dictionaries.map((one) => one.targetLangCode);
  found.listed = (await client.listMultilingualGlossaries()).map((one) => one.name);
  await client.deleteMultilingualGlossary(glossary);
  return { ...found, gone: await answer(() => client.getMultilingualGlossary(glossary)) };
}

const keyed = {
  "deepl-node": async (key) =>
    (await connect(key, 0).translateText(TOMORROW, "en", "ko")).text,
  "libretranslate-ts": async (key) => {
    libre.setApiKey(key);
    const answer = await libre.translate(TOMORROW, "en", "ko");
    return answer.translatedText || answer;
  },
  "translate (npm): deepl": (key) =>
    Translate({ engine: "deepl", key })(TOMORROW, { from: "en", to: "ko" }),
};

async function answerAll(questions) {
  const found = {};
  for (const [name, ask] of Object.entries(questions)) found[name] = await answer(ask);
  return found;
}

const found = {};
if (topic === "glossaries") {
  found["deepl-node 2"] = await answer(askVersion2);
  found["deepl-node 3"] = await answer(askVersion3);
} else if (topic === "keys") {
  for (const [name, ask] of Object.entries(keyed)) {
    const keys = Object.entries(JSON.parse(argument));
    const questions = keys.map(([which, key]) => [which, () => ask(key)]);
    found[name] = await answerAll(Object.fromEntries(questions));
  }
} else {
  // The package leaves folders behind.
  if (topic === "documents") process.env.TMPDIR = argument;
  const packages = topic === "texts" ? texts : documents;
  for (const [name, questions] of Object.entries(packages))
    found[name] = await answerAll(questions);
}
console.log(JSON.stringify(found));
