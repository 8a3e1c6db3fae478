// Reads and writes tables of two columns: CSV and TSV.

// A spreadsheet would run such a cell; an apostrophe before it says that it is text.
const FORMULA = /^'*[=+\-@\t\r]/;
const ESCAPED = /^'(?='*[=+\-@\t\r])/;

/** The rows of a table. A tab in the first line makes it TSV, which has no quotes. */
export function readTable(text) {
  const first = text.split("\n", 1)[0];
  const rows = first.includes("\t")
    ? text.split(/\r?\n/).map((line) => line.split("\t"))
    : readCsv(text, first.includes(";") && !first.includes(",") ? ";" : ",");
  return rows.map((row) => row.map((cell) => cell.trim())).filter((row) => row[0] || row[1]);
}

function readCsv(text, comma) {
  const rows = [[]];
  const cells = new RegExp(`(?:"((?:[^"]|"")*)"|([^"${comma}\\r\\n]*))(${comma}|\\r?\\n|$)`, "y");
  while (cells.lastIndex < text.length) {
    const match = cells.exec(text);
    if (!match) throw new SyntaxError(`"`);
    rows.at(-1).push((match[1]?.replaceAll('""', '"') ?? match[2]).replace(ESCAPED, ""));
    if (match[3].endsWith("\n")) rows.push([]);
    if (!match[0]) break;
  }
  return rows;
}

export function writeTsv(rows) {
  return rows.map((row) => `${row.join("\t")}\n`).join("");
}

export function writeCsv(rows) {
  const escape = (cell) => (FORMULA.test(cell) ? `'${cell}` : cell);
  const quote = (cell) => (/[",;\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
  return rows.map((row) => `${row.map((cell) => quote(escape(cell))).join(",")}\r\n`).join("");
}
