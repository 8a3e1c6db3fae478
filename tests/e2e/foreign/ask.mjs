// Asks a stack with the unmodified npm packages of other APIs. `node ask.mjs URL` prints what
// each question was answered, or the error that the package threw, as JSON.
import * as deepl from "deepl-node";
import libretranslate from "libretranslate-ts";
import { Translate } from "translate";

const url = process.argv[2];
const TOMORROW = "See you tomorrow";
const STATION = "Where is the station?";
const XML = "<d><t>Good morning</t><p>My name is <x>{Anna}</x>.</p></d>";

const client = new deepl.Translator("any-key", { serverUrl: url, maxRetries: 1 });
const libre = libretranslate.libreTranslate;
libre.setApiEndpoint(url);
libre.setApiKey("");

// Its engine for DeepL has a fixed server.
const fetchAsIs = globalThis.fetch;
globalThis.fetch = (asked, options) =>
  fetchAsIs(asked.replace("https://api.deepl.com", url), options);

const QUESTIONS = {
  "deepl-node": {
    text: () => client.translateText(TOMORROW, "en", "de"),
    auto: () => client.translateText(STATION, null, "fr"),
    list: () => client.translateText([STATION, "Wo ist der Bahnhof?"], null, "fr"),
    xml: () =>
      client.translateText(XML, "en", "de", { tagHandling: "xml", ignoreTags: ["x"] }),
    variant: () => client.translateText(TOMORROW, "en", "zh-HANS"),
    sources: () => client.getSourceLanguages(),
    targets: () => client.getTargetLanguages(),
    usage: async () => (await client.getUsage()).character.count,
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

const found = {};
for (const [name, questions] of Object.entries(QUESTIONS)) {
  found[name] = {};
  for (const [question, ask] of Object.entries(questions)) {
    try {
      found[name][question] = await ask();
    } catch (error) {
      found[name][question] = `${error.constructor.name}: ${error.message}`;
    }
  }
}
console.log(JSON.stringify(found));
