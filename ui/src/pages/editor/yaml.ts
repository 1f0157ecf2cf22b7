// Reads and changes single fields of YAML. Only the lines of a changed field change: comments, order and unknown fields stay.
import type { SyntaxNode, Tree } from "@lezer/common";
import { parser } from "@lezer/yaml";

export type Value = string | string[];

export interface FieldText {
  /** The value. Undefined if it is a mapping, or not valid: then only the text can be edited. */
  value: Value | undefined;
  /** True if the value is written as a list. */
  isList: boolean;
  /** Where its line begins in the YAML. */
  from: number;
}

// A form asks for many fields of the same text.
const parsed = new Map<string, Tree>();
const MOST_PARSED = 4;

function parse(yaml: string): Tree {
  const known = parsed.get(yaml);
  if (known) return known;
  if (parsed.size >= MOST_PARSED) parsed.clear();
  const tree = parser.parse(yaml);
  parsed.set(yaml, tree);
  return tree;
}

interface Pair {
  key: string;
  node: SyntaxNode;
  value: SyntaxNode | undefined;
}

/** Return a field of YAML, or undefined if it is not there. `path` leads to it: `["metadata", "version"]`. */
export function readField(yaml: string, path: string[]): FieldText | undefined {
  const pair = findPair(yaml, path);
  if (!pair) return undefined;
  const value = readValue(yaml, pair);
  const isList = pair.value?.name === "BlockSequence" || pair.value?.name === "FlowSequence";
  return { value, isList, from: pair.node.from };
}

/** Return the YAML with another value of a field. `order` are the keys that stand before a new one. */
export function writeField(yaml: string, path: string[], value: Value, order: string[] = []): string {
  const pair = findPair(yaml, path);
  const written = pair ? replaceValue(yaml, pair, value) : insertPair(yaml, path, value, order);
  if (isSame(readField(written, path)?.value, value)) return written;
  // Rare texts do not fit the style that is there. Quotes hold everything.
  if (!pair) return insertPair(yaml, path, value, order, true);
  return replaceValue(yaml, pair, value, true);
}

/** Return the YAML without a field, and without its lines. */
export function removeField(yaml: string, path: string[]): string {
  const pair = findPair(yaml, path);
  if (!pair) return yaml;
  const from = lineStart(yaml, pair.node.from);
  const to = lineEnd(yaml, endOf(pair.node));
  return yaml.slice(0, from) + yaml.slice(Math.min(to + 1, yaml.length));
}

/** Return the YAML without the line of a field, unless a comment there says more. */
export function dropField(yaml: string, path: string[]): string {
  const pair = findPair(yaml, path);
  const line = pair ? yaml.slice(pair.node.from, lineEnd(yaml, endOf(pair.node))) : "";
  return line.includes("#") ? yaml : removeField(yaml, path);
}

/** Return True if two values are the same. Nothing, an empty text and an empty list are the same. */
export function isSame(one: Value | undefined, other: Value | undefined): boolean {
  const plain = (value: Value | undefined) => (value === undefined || value.length === 0 ? "" : value);
  return JSON.stringify(plain(one)) === JSON.stringify(plain(other));
}

function findPair(yaml: string, path: string[]): Pair | undefined {
  let mapping = parse(yaml).topNode.getChild("Document")?.getChild("BlockMapping");
  for (const [depth, key] of path.entries()) {
    const found: Pair | undefined = mapping ? pairsOf(yaml, mapping).find((pair) => pair.key === key) : undefined;
    if (!found || depth === path.length - 1) return found;
    mapping = found.value?.name === "BlockMapping" ? found.value : undefined;
  }
  return undefined;
}

function pairsOf(yaml: string, mapping: SyntaxNode): Pair[] {
  return mapping.getChildren("Pair").map((node) => {
    const key = node.getChild("Key");
    const text = key ? yaml.slice(key.from, key.to) : "";
    let value: SyntaxNode | undefined;
    for (let one = node.firstChild; one; one = one.nextSibling)
      if (one.name !== "Key" && one.name !== ":" && one.name !== "Comment") value ??= one;
    return { key: /^["']/.test(text) ? text.slice(1, -1) : text, node, value };
  });
}

function readValue(yaml: string, { node, value }: Pair): Value | undefined {
  if (!value) return "";
  const line = yaml.slice(value.from, lineEnd(yaml, value.from));
  // `description: Note: read this` is not YAML, but what it means is clear, and Prowess reads it so.
  const isOneLine = endOf(node) <= lineEnd(yaml, node.from);
  if (value.name === "⚠" || hasError(value) || (value.name === "BlockMapping" && isOneLine))
    return isOneLine && !/^\s*[[{&*!|>"'%@`]/.test(line) ? line.replace(/\s+#.*$/, "").trim() : undefined;
  if (value.name === "FlowSequence" || value.name === "BlockSequence") {
    const items = itemsOf(value).map((item) => (item.firstChild ? readScalar(yaml, item.firstChild) : ""));
    return items.every((item) => item !== undefined) ? (items as string[]) : undefined;
  }
  return readScalar(yaml, value);
}

function itemsOf(sequence: SyntaxNode): SyntaxNode[] {
  return sequence.getChildren("Item");
}

/** Return where a node ends without the comments at its end: they belong to what follows. */
function endOf(node: SyntaxNode): number {
  let last = node.lastChild;
  while (last?.name === "Comment") last = last.prevSibling;
  return last ? endOf(last) : node.to;
}

function hasError(node: SyntaxNode): boolean {
  let found = false;
  node.cursor().iterate((one) => {
    if (one.type.isError) found = true;
  });
  return found;
}

function readScalar(yaml: string, node: SyntaxNode): string | undefined {
  const text = yaml.slice(node.from, node.to);
  if (node.name === "Literal") return fold(text.split("\n"));
  if (node.name === "QuotedLiteral") return readQuoted(text);
  return node.name === "BlockLiteral" ? readBlock(text) : undefined;
}

/** Join the lines of a text that YAML reads as one: a line break is a space, and an empty line a line break. */
function fold(lines: string[]): string {
  return lines
    .map((line) => line.trim())
    .join("\n")
    .replace(/\n+/g, (breaks) => (breaks.length === 1 ? " " : breaks.slice(1)));
}

function readQuoted(text: string): string | undefined {
  const mark = text[0] as string;
  if (text.length < 2 || !text.endsWith(mark)) return undefined;
  const inner = fold(text.slice(1, -1).split("\n"));
  const whole = text.includes("\n") ? inner : text.slice(1, -1);
  if (mark === "'") return whole.replaceAll("''", "'");
  try {
    return JSON.parse(`"${whole.replaceAll("\t", "\\t")}"`) as string;
  } catch {
    return undefined;
  }
}

function readBlock(text: string): string | undefined {
  const [head = "", ...lines] = text.split("\n");
  const found = /^([|>])([+-]?)\s*(#.*)?$/.exec(head);
  if (!found) return undefined;
  const indent = Math.min(...lines.filter((line) => line.trim()).map((line) => line.length - line.trimStart().length));
  const plain = lines.map((line) => (line.trim() ? line.slice(indent) : line.slice(indent) || ""));
  while (plain.length && !plain.at(-1)) plain.pop();
  const isFolded = found[1] === ">" && !plain.some((line) => /^\s/.test(line));
  const body = isFolded ? fold(plain) : plain.join("\n");
  return found[2] === "-" || !body ? body : `${body}\n`;
}

function replaceValue(yaml: string, pair: Pair, value: Value, isQuoted = false): string {
  const { node, value: old } = pair;
  const indent = node.from - lineStart(yaml, node.from);
  if (Array.isArray(value) && old?.name === "BlockSequence" && value.length && !isQuoted) {
    const changed = replaceItems(yaml, old, value);
    if (changed !== undefined) return changed;
  }
  const text = writeValue(value, indent, styleOf(yaml, old), isQuoted);
  const colon = node.getChild(":");
  const after = colon ? colon.to : node.to;
  if (!old) return `${yaml.slice(0, after)}${text && ` ${text}`}${yaml.slice(after)}`;
  const isInvalid = old.name === "⚠" || old.name === "BlockMapping" || hasError(old);
  // What is not valid ends where its line does, or the whole field.
  const end = isInvalid ? Math.max(endOf(node), lineEnd(yaml, old.from)) : old.to;
  const isBlock = text.includes("\n");
  const rest = yaml.slice(end, lineEnd(yaml, end));
  const tail = isBlock && rest.trim() ? `${rest.trimEnd()}` : "";
  const head = `${yaml.slice(0, after)}${text && " "}`;
  if (!isBlock) return head + text + yaml.slice(end);
  // A comment behind the value goes behind the mark of the block.
  const [first, ...lines] = text.split("\n");
  return `${head}${first}${tail}\n${lines.join("\n")}${yaml.slice(lineEnd(yaml, end))}`;
}

/** Change only the items of a list that are others, so that the comments of the rest stay. */
function replaceItems(yaml: string, sequence: SyntaxNode, value: string[]): string | undefined {
  const items = itemsOf(sequence);
  const old = items.map((item) => (item.firstChild ? readScalar(yaml, item.firstChild) : ""));
  if (old.some((item) => item === undefined) || yaml.slice(sequence.from, sequence.to).includes("|")) return undefined;
  let same = 0;
  while (same < old.length && same < value.length && old[same] === value[same]) same += 1;
  let end = 0;
  while (end < Math.min(old.length, value.length) - same && old.at(-1 - end) === value.at(-1 - end)) end += 1;
  const start = yaml.slice(lineStart(yaml, sequence.from), sequence.from);
  const lines = value.slice(same, value.length - end).map((item) => `${start}- ${scalar(item, ",")}`);
  const ends = items.map((item) => lineEnd(yaml, item.to));
  const from = same ? (ends[same - 1] as number) : lineStart(yaml, sequence.from) - 1;
  const to = end < old.length ? (ends[old.length - 1 - end] as number) : from;
  return yaml.slice(0, from) + lines.map((line) => `\n${line}`).join("") + yaml.slice(Math.max(from, to));
}

function insertPair(yaml: string, path: string[], value: Value, order: string[], isQuoted = false): string {
  const key = path.at(-1) as string;
  const mapping = parse(yaml).topNode.getChild("Document")?.getChild("BlockMapping");
  const before = mapping ? pairsOf(yaml, mapping).filter((pair) => order.includes(pair.key)) : [];
  const place = before.reduce<Pair | undefined>(
    (last, pair) => (!last || order.indexOf(pair.key) > order.indexOf(last.key) ? pair : last),
    undefined,
  );
  const text = writeValue(value, 0, "", isQuoted);
  const line = `${key}:${text && ` ${text}`}\n`;
  const at = place ? Math.min(lineEnd(yaml, endOf(place.node)) + 1, yaml.length) : order.length ? 0 : yaml.length;
  const gap = at > 0 && !yaml.slice(0, at).endsWith("\n") ? "\n" : "";
  return yaml.slice(0, at) + gap + line + yaml.slice(at);
}

function styleOf(yaml: string, node: SyntaxNode | undefined): string {
  if (!node) return "";
  if (node.name === "BlockLiteral") return yaml[node.from] as string;
  if (node.name === "QuotedLiteral") return yaml[node.from] as string;
  return node.name === "BlockSequence" ? "-" : "";
}

function writeValue(value: Value, indent: number, style: string, isQuoted: boolean): string {
  const pad = " ".repeat(indent + 2);
  if (Array.isArray(value)) {
    if (style === "-" && value.length) return `\n${value.map((one) => `${pad}- ${scalar(one, ",")}`).join("\n")}`;
    return `[${value.map((one) => scalar(one, ",[]{}", isQuoted)).join(", ")}]`;
  }
  if (isQuoted) return quote(value);
  const isBlock = value.includes("\n") || ((style === "|" || style === ">") && value !== "");
  if (
    isBlock &&
    /^\S/.test(value) &&
    !/\n\n$|[\t ]\n|[\t ]$|\n[\t ]+\n|[\r\u007f-\u00a0\u2028\u2029\ufeff]/.test(value)
  ) {
    const end = value.endsWith("\n") ? "" : "-";
    const mark = style === ">" && !value.trimEnd().includes("\n") ? ">" : "|";
    const lines = value.replace(/\n$/, "").split("\n");
    return `${mark}${end}\n${lines.map((line) => (line ? pad + line : "")).join("\n")}`;
  }
  if (style === "'" && !/[\n'\t\u007f-\u00a0\u2028\u2029\ufeff]/.test(value)) return `'${value}'`;
  if (style === '"') return quote(value);
  return value === "" ? "" : scalar(value, "");
}

/** Return a text in double quotes. Other breaks of lines and characters that nobody sees are written as numbers. */
function quote(text: string): string {
  return JSON.stringify(text).replace(
    /[\u007f-\u00a0\u2028\u2029\ufeff]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}

const WORDS = /^(true|false|yes|no|on|off|null|~|y|n)$/i;
const NUMBER = /^[-+.]?\d[\d_.eExXa-fA-F+:-]*$/;

function scalar(text: string, forbidden: string, isQuoted = false): string {
  const isPlain =
    /^[\p{L}\p{N}/_.(]/u.test(text) &&
    /[^\s:]$/u.test(text) &&
    !/:\s|\s#|[\p{C}]|^---|^\.\.\.|\u2028|\u2029|\u00a0/u.test(text) &&
    !WORDS.test(text) &&
    !(NUMBER.test(text) && !/\..*\./.test(text)) &&
    ![...forbidden].some((mark) => text.includes(mark));
  return isPlain && !isQuoted ? text : quote(text);
}

function lineStart(text: string, at: number): number {
  return text.lastIndexOf("\n", at - 1) + 1;
}

function lineEnd(text: string, at: number): number {
  const found = text.indexOf("\n", at);
  return found < 0 ? text.length : found;
}

/** Return the YAML with another item at the end of a list of mappings; undefined if the list is written in one line. */
export function appendItem(yaml: string, key: string, lines: string[]): string | undefined {
  const pair = findPair(yaml, [key]);
  const item = (indent: string) => lines.map((line, number) => `${indent}${number ? "  " : "- "}${line}\n`).join("");
  if (!pair) {
    const gap = yaml && !yaml.endsWith("\n") ? "\n" : "";
    return `${yaml}${gap}${key}:\n${item("  ")}`;
  }
  if (pair.value?.name === "FlowSequence" && !itemsOf(pair.value).length)
    return appendItem(removeField(yaml, [key]), key, lines);
  if (pair.value && pair.value.name !== "BlockSequence") return undefined;
  const end = lineEnd(yaml, endOf(pair.node));
  const indent = pair.value ? yaml.slice(lineStart(yaml, pair.value.from), pair.value.from) : "  ";
  const gap = end === yaml.length ? "\n" : yaml.slice(end, end + 1);
  return `${yaml.slice(0, end)}${gap}${item(indent)}${yaml.slice(end + 1)}`;
}

type Json = string | number | boolean | null | Json[] | { [key: string]: Json };

/** Return a field of the first level as JSON; undefined if it is not there, or has parts that JSON cannot say. */
export function readJson(yaml: string, key: string): Json | undefined {
  const pair = findPair(yaml, [key]);
  return pair?.value ? toJson(yaml, pair.value) : undefined;
}

/** Return the YAML with a field of the first level as JSON, which is YAML, too. */
export function writeJson(yaml: string, key: string, value: Json): string {
  const lines = JSON.stringify(value, null, 2).split("\n");
  const text = `${key}:\n${lines.map((line) => `  ${line}`).join("\n")}\n`;
  const pair = findPair(yaml, [key]);
  if (!pair) return `${yaml}${yaml && !yaml.endsWith("\n") ? "\n" : ""}${text}`;
  const end = lineEnd(yaml, endOf(pair.node));
  return yaml.slice(0, pair.node.from) + text + yaml.slice(Math.min(end + 1, yaml.length));
}

function toJson(yaml: string, node: SyntaxNode): Json | undefined {
  if (hasError(node)) return undefined;
  if (node.name === "BlockMapping" || node.name === "FlowMapping") {
    const entries = pairsOf(yaml, node).map(({ key, value }) => [key, value ? toJson(yaml, value) : null] as const);
    return entries.some(([, value]) => value === undefined)
      ? undefined
      : (Object.fromEntries(entries) as { [key: string]: Json });
  }
  if (node.name === "BlockSequence" || node.name === "FlowSequence") {
    const items = itemsOf(node).map((item) => (item.firstChild ? toJson(yaml, item.firstChild) : null));
    return items.some((item) => item === undefined) ? undefined : (items as Json[]);
  }
  const text = readScalar(yaml, node);
  if (text === undefined || node.name !== "Literal") return text;
  if (/^(true|false|null)$/.test(text) || /^-?\d+(\.\d+)?$/.test(text)) return JSON.parse(text) as Json;
  return text;
}
