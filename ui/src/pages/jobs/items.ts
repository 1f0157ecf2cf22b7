// The inputs of a batch, from text: lines of JSON, or CSV with a header line.
import { t } from "../../i18n";

export interface Items {
  items: Record<string, unknown>[];
  /** What is wrong with the text; empty if nothing is. */
  problem: string;
}

export const MOST_ITEMS = 100_000;

/** Return the items of a text. It is JSON if its first line begins with a brace or a bracket, otherwise CSV. */
export function readItems(text: string): Items {
  const whole = text.replace(/^\uFEFF/, "").trimStart();
  const cut = whole.trimEnd();
  // A tab at the end stays: the last field of a table may be empty.
  const trimmed = cut + (/^\t*/.exec(whole.slice(cut.length))?.[0] ?? "");
  if (!trimmed) return { items: [], problem: "" };
  const read = trimmed.startsWith("[")
    ? readArray(trimmed)
    : trimmed.startsWith("{")
      ? readLines(trimmed)
      : readCsv(trimmed);
  if (read.items.length > MOST_ITEMS) return { items: [], problem: t("jobs.too_many", { count: MOST_ITEMS }) };
  return read;
}

function readArray(text: string): Items {
  try {
    const found = JSON.parse(text) as unknown[];
    const bad = found.findIndex((one) => !isObject(one));
    if (bad < 0) return { items: found as Record<string, unknown>[], problem: "" };
    return wrong(bad + 1, t("jobs.bad_json"));
  } catch {
    return wrong(1, t("jobs.bad_json"));
  }
}

function readLines(text: string): Items {
  const items: Record<string, unknown>[] = [];
  for (const [number, line] of text.split(/\r?\n/).entries()) {
    if (!line.trim()) continue;
    let found: unknown;
    try {
      found = JSON.parse(line);
    } catch {
      found = undefined;
    }
    if (!isObject(found)) return wrong(number + 1, t("jobs.bad_json"));
    items.push(found);
  }
  return { items, problem: "" };
}

function readCsv(text: string): Items {
  const rows = splitCsv(text);
  if (!rows) return wrong(text.split("\n").length, t("jobs.bad_quote"));
  const header = (rows[0]?.fields ?? []).map((name) => name.trim());
  if (header.some((name) => !name) || new Set(header).size < header.length) return wrong(1, t("jobs.bad_header"));
  const items: Record<string, unknown>[] = [];
  for (const { fields, line } of rows.slice(1)) {
    if (fields.length !== header.length)
      return wrong(line, t("jobs.bad_columns", { found: fields.length, wanted: header.length }));
    items.push(Object.fromEntries(header.map((name, place) => [name, fields[place]])));
  }
  return { items, problem: "" };
}

/** Return the records of CSV (RFC 4180; comma, semicolon or tab), or undefined if a quotation mark stays open. */
function splitCsv(text: string): { fields: string[]; line: number }[] | undefined {
  const head = text.split("\n", 1)[0] ?? "";
  const mark = [",", ";", "\t"].sort((one, other) => head.split(other).length - head.split(one).length)[0] as string;
  const rows: { fields: string[]; line: number }[] = [];
  let fields: string[] = [];
  let field = "";
  let isQuoted = false;
  let line = 1;
  let began = 1;
  const end = () => {
    fields.push(field);
    if (fields.length > 1 || field) rows.push({ fields, line: began });
    [fields, field, began] = [[], "", line];
  };
  for (let place = 0; place < text.length; place += 1) {
    const char = text[place] as string;
    if (char === "\n") line += 1;
    if (isQuoted) {
      if (char !== '"') field += char;
      else if (text[place + 1] === '"') {
        field += char;
        place += 1;
      } else isQuoted = false;
    } else if (char === '"' && !field) isQuoted = true;
    else if (char === mark) {
      fields.push(field);
      field = "";
    } else if (char === "\n") end();
    else if (char !== "\r") field += char;
  }
  if (isQuoted) return undefined;
  end();
  return rows;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function wrong(line: number, why: string): Items {
  return { items: [], problem: t("jobs.bad_line", { line, why }) };
}
