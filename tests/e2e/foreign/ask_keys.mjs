// Asks a stack with the unmodified npm packages of other APIs, each with several keys.
// `node ask_keys.mjs URL '{"NAME": "KEY", …}'` prints each answer or error as JSON.
import * as deepl from "deepl-node";
import libretranslate from "libretranslate-ts";
import { Translate } from "translate";

const [url, keys] = process.argv.slice(2);
const TOMORROW = "See you tomorrow";

const fetchAsIs = globalThis.fetch;
globalThis.fetch = (asked, options) =>
  fetchAsIs(asked.replace("https://api.deepl.com", url), options);

const QUESTIONERS = {
  "deepl-node": async (key) => {
    const client = new deepl.Translator(key, { serverUrl: url, maxRetries: 0 });
    return (await client.translateText(TOMORROW, "en", "ko")).text;
  },
  "libretranslate-ts": async (key) => {
    const libre = libretranslate.libreTranslate;
    libre.setApiEndpoint(url);
    libre.setApiKey(key);
    const answer = await libre.translate(TOMORROW, "en", "ko");
    return answer.translatedText || answer;
  },
  "translate (npm): deepl": (key) =>
    Translate({ engine: "deepl", key })(TOMORROW, { from: "en", to: "ko" }),
};

const found = {};
for (const [name, ask] of Object.entries(QUESTIONERS)) {
  found[name] = {};
  for (const [which, key] of Object.entries(JSON.parse(keys))) {
    try {
      found[name][which] = await ask(key);
    } catch (error) {
      found[name][which] = `${error.constructor.name}: ${error.message}`;
    }
  }
}
console.log(JSON.stringify(found));
