// Makes, uses and deletes glossaries with the unmodified package `deepl-node`. `node
// ask_glossaries.mjs URL` prints what each step was answered, as JSON.
import * as deepl from "deepl-node";

const client = new deepl.DeepLClient("any-key", {
  serverUrl: process.argv[2],
  maxRetries: 1,
});
const TEXT = "Where is charging station?";
const entries = new deepl.GlossaryEntries({
  entries: { "charging station": "Ladestation" },
});
const german = { sourceLangCode: "en", targetLangCode: "de", entries };
const answer = (asked) => asked.catch((e) => `${e.constructor.name}: ${e.message}`);

async function askVersion2() {
  const made = await client.createGlossary("By two", "en", "de", entries);
  const glossary = made.glossaryId;
  const found = {
    made: [made.name, made.ready, made.sourceLang, made.entryCount],
    listed: (await client.listGlossaries()).map((one) => one.name),
    found: (await client.getGlossary(glossary)).name,
    entries: (await client.getGlossaryEntries(glossary)).entries(),
    text: (await client.translateText(TEXT, "en", "de", { glossary })).text,
    both: (await client.translateText(TEXT, "en", "de", { glossaryIds: [glossary] })).text,
  };
  await client.deleteGlossary(glossary);
  return { ...found, gone: await answer(client.getGlossary(glossary)) };
}

async function askVersion3() {
  const french = { ...german, targetLangCode: "fr" };
  const made = await client.createMultilingualGlossary("By three", [german, french]);
  const glossary = made.glossaryId;
  const found = {
    made: made.dictionaries.map((one) => one.targetLangCode),
    text: (await client.translateText(TEXT, "en", "de", { glossary })).text,
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
  return { ...found, gone: await answer(client.getMultilingualGlossary(glossary)) };
}

const found = {
  "deepl-node 2": await answer(askVersion2()),
  "deepl-node 3": await answer(askVersion3()),
};
console.log(JSON.stringify(found));
