// Has a stack translate documents with the unmodified package `deepl-node`.
// `node ask_documents.mjs URL FOLDER` prints what each question was answered as JSON.
import * as fs from "node:fs";
import * as path from "node:path";
import * as deepl from "deepl-node";

const [url, folder] = process.argv.slice(2);
// The package leaves folders behind.
process.env.TMPDIR = folder;
const client = new deepl.Translator("any-key", { serverUrl: url, maxRetries: 1 });

async function translate(name, content) {
  const source = path.join(folder, `node-${name}`);
  const target = path.join(folder, `translated-node-${name}`);
  fs.writeFileSync(source, content);
  const status = await client.translateDocument(source, target, "en", "de");
  return [status.status, status.billedCharacters, fs.readFileSync(target, "utf-8")];
}

const QUESTIONS = {
  text: () => translate("a.txt", "See you tomorrow\n"),
  html: () => translate("a.html", "<p>My name is <b>Anna</b>.</p>\n"),
  damaged: () => translate("a.json", "{"),
  "no format": () => translate("a.exe", "See you tomorrow\n"),
};

const found = {};
for (const [question, ask] of Object.entries(QUESTIONS)) {
  try {
    found[question] = await ask();
  } catch (error) {
    found[question] = `${error.constructor.name}: ${error.message}`;
  }
}
console.log(JSON.stringify({ "deepl-node": found }));
