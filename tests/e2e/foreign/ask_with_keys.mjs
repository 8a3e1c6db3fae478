// Asks with the unmodified npm packages of other APIs and several keys. `node
// ask_with_keys.mjs URL NAME=KEY …` prints by package and key's name what was answered, or the
// error that the package threw, as JSON.
import * as deepl from "deepl-node";
import libretranslate from "libretranslate-ts";
import { Translate } from "translate";

const [url, ...given] = process.argv.slice(2);
const TEXT = "Hello";
const TEXTS = { right: TEXT, wrong: "Hella", poor: "Helle", busy: "Helli" };
const libre = libretranslate.libreTranslate;
libre.setApiEndpoint(url);

const PACKAGES = {
  "deepl-node": async (key) => {
    const client = new deepl.Translator(key, { serverUrl: url, maxRetries: 1 });
    return (await client.translateText(TEXT, "en", "ko")).text;
  },
  "libretranslate-ts": async (key) => {
    libre.setApiKey(key);
    const found = await libre.translate(TEXT, "en", "ko");
    return found.error || found.translatedText;
  },
  // It never asks twice for the same text, whatever the key.
  "translate (npm)": (key, name) =>
    Translate({ engine: "libre", url: `${url}/translate`, key })(TEXTS[name], {
      from: "en",
      to: "ko",
    }),
};

const found = {};
for (const [name, ask] of Object.entries(PACKAGES)) {
  found[name] = {};
  for (const one of given) {
    const [key, value] = one.split("=", 2);
    try {
      found[name][key] = await ask(value, key);
    } catch (error) {
      found[name][key] = `${error.constructor.name}: ${error.message}`;
    }
  }
}
console.log(JSON.stringify(found));
