// Divides a text into parts that are translated on their own, and a line into sentences.

/** Characters of the first request, and of all others. */
const FIRST_CHARACTERS = 500;
const PART_CHARACTERS = 2000;

/** The lines of a text in groups: each is a request, and the first one is small, so that
    something can be read soon. Markup is one part, because tags may go over many lines. */
export function listParts(text, format, most) {
  if (format !== "text") return [[text]];
  const parts = [];
  let size = 0;
  for (const line of text.split("\n")) {
    const part = parts.at(-1);
    const room = parts.length > 1 ? PART_CHARACTERS : FIRST_CHARACTERS;
    if (!part || size + line.length > room || part.length >= most) {
      parts.push([line]);
      size = line.length;
    } else {
      part.push(line);
      size += line.length + 1;
    }
  }
  return parts;
}

/** The sentences of a line with the spaces behind them. */
export function listSentences(line, language) {
  const known = language && language !== "auto" ? language : undefined;
  const segmenter = new Intl.Segmenter(known, { granularity: "sentence" });
  return [...segmenter.segment(line)].map((found) => found.segment);
}
