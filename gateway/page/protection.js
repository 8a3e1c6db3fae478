// Finds what stays as it is, so that the page can mark it: the API keeps it, see docs/api.md.

const UNITS =
  "km/h|km²|km|m²|m³|m/s|cm|mm|nm|kg|mg|µg|lbs?|oz|ml|cl|dl|°C|°F|[kMGT]i?B/s|[kMG]bit/s|[kMGT]?i?B|[kMG]?Hz|[kMG]?Wh?|[kMG]?V|mAh|px|dpi|fps|dB|kPa|hPa|m|g|l|L";
const PLAIN = [
  "```[^]+?```|`[^`\\n]+`",
  "(?:(?:https?|ftps?|file)://|www\\.)[^\\s<>\"'`{}|\\\\^、。，！？]*[^\\s<>\"'`{}|\\\\^、。，！？.,;:)\\]»”’]",
  "(?<![\\p{L}\\d_.+%-])[\\p{L}\\d_.+%-]+@[\\p{L}\\d_-]+(?:\\.[\\p{L}\\d_-]+)+",
  "\\{\\{[^{}]+\\}\\}|[$%#]\\{[^{}\\n]+\\}|\\{[\\w.:#!$\\[\\] ,-]*(?:=[^{}\\n]+)?\\}|\\{%[^{}\\n]+%\\}",
  "</?(?:\\d{1,3}|[a-zA-Z][\\w-]*)(?:[ \\t][^<>\\n]*)?/?>",
  "\\$t\\([^()\\n]+\\)|\\$[a-zA-Z]\\w*\\$(?![\\p{L}\\d_])|(?<![\\p{L}\\d_.])@:[a-zA-Z_]\\w*(?:[.-]\\w+)*",
  "%%|%\\(\\w+\\)[a-zA-Z]|%(?:\\d+\\$)?[#+-]*\\d*(?:\\.\\d+)?[diouxXeEfFgGsc@](?![\\p{L}\\d_])",
  "(?<![^\\s(\\[\"'«„“‘>]):[a-zA-Z_][a-zA-Z0-9_]+(?![\\p{L}\\d_:])",
  "(?<![\\p{L}\\d:]):(?=[0-9_+-]*[a-z])[a-z0-9_+-]+:(?![\\p{L}\\d:])",
  `(?<![\\p{L}\\d.,])[-+−]?\\d+(?:[.,]\\d+)*[ \\u00a0\\u202f]?(?:${UNITS})(?![\\p{L}\\d_])`,
  "\\bv\\d+(?:\\.\\d+)*\\b|\\b\\d+(?:\\.\\d+){2,}\\b",
  "\\b\\d+(?:-\\d+){2,}\\b",
  "\\b(?:ISO(?:/IEC)?|IEC|IEEE|RFC)[ \\u00a0]\\d+(?:[.-]\\d+)*(?::\\d{4})?",
  "\\b[A-Z]+[/-]?\\d[A-Z\\d]*(?:[/-]\\d[A-Z\\d]*)*\\b",
  "\\p{RI}\\p{RI}|[0-9#*]\\uFE0F?\\u20E3|\\p{Extended_Pictographic}(?:\\uFE0F|\\u200D\\p{Extended_Pictographic}|\\p{EMod})*",
];
const TAGS = "<!--[^]*?(?:-->|$)|</?[A-Za-z][^<>]*>|&(?:#\\d+|#x[\\da-fA-F]+|\\w+);";

/** A translation in pieces: [text, whether it is kept]. What the source does not have is
    not kept, however it looks. */
export function divide(translated, source, format) {
  const patterns = format === "text" ? PLAIN : [TAGS, ...PLAIN];
  const pieces = [];
  let end = 0;
  for (const match of translated.matchAll(new RegExp(patterns.join("|"), "gu"))) {
    if (!source.includes(match[0])) continue;
    if (match.index > end) pieces.push([translated.slice(end, match.index), false]);
    end = match.index + match[0].length;
    pieces.push([match[0], true]);
  }
  if (end < translated.length) pieces.push([translated.slice(end), false]);
  return pieces;
}
