// Prints ICU messages as FormatJS parses them: `node messages.mjs tests/text/messages.json`. A
// literal is a string, `#` and an argument without arms are lists, and a broken message is null.
import { readFileSync } from "node:fs";
import { parse, TYPE } from "@formatjs/icu-messageformat-parser";

const OPTIONS = { ignoreTag: true, requiresOtherClause: false, shouldParseSkeletons: false };

function describe(element) {
  if (element.type === TYPE.literal) return element.value;
  if (element.type === TYPE.pound) return ["#"];
  if (!element.options) return [element.value];
  const arms = Object.entries(element.options).map(([key, { value }]) => [key, value.map(describe)]);
  const kind = element.type === TYPE.select ? "select" : element.pluralType === "ordinal" ? "selectordinal" : "plural";
  return [element.value, kind, element.offset ?? 0, arms];
}

function read(message) {
  try {
    return parse(message, OPTIONS).map(describe);
  } catch {
    return null;
  }
}

const messages = JSON.parse(readFileSync(process.argv[2], "utf8")).map((item) => [].concat(item)[0]);
const lines = messages.map((message) => JSON.stringify([message, read(message)]));
console.log(`[\n${lines.join(",\n")}\n]`);
