// The fields of the form: where each one stands in the files of a skill, and how it is changed there.
import { dropField, readField, removeField, type Value, writeField } from "./yaml";

export const SIDECAR = "agents/prowess.yaml";

/** The texts that have fields: the document, and the file beside it for what SKILL.md has no place for. */
export interface Texts {
  content: string;
  sidecar: string | undefined;
}

export type FieldName =
  | "name"
  | "slug"
  | "title"
  | "description"
  | "version"
  | "author"
  | "license"
  | "tags"
  | "triggers"
  | "keywords"
  | "intent_patterns"
  | "when_to_use"
  | "compatibility"
  | "allowed-tools"
  | "hosts"
  | "env"
  | "roots"
  | "requirements"
  | "binaries"
  | "runtime";

interface Definition {
  /** Other spellings of the key. */
  also?: string[];
  isList?: boolean;
  /** Where it may stand besides the first level of the frontmatter. `sidecar`: only in the file beside it. */
  place?: "metadata" | "sidecar";
}

const FIELDS: Record<FieldName, Definition> = {
  name: {},
  slug: {},
  title: { place: "metadata" },
  description: {},
  version: { place: "metadata" },
  author: { place: "metadata" },
  license: {},
  tags: { isList: true, place: "metadata" },
  triggers: { isList: true, also: ["trigger_phrases", "trigger-phrases"], place: "metadata" },
  keywords: { isList: true, also: ["trigger_keywords", "trigger-keywords"], place: "metadata" },
  intent_patterns: { isList: true, also: ["intent-patterns"], place: "metadata" },
  when_to_use: { also: ["when-to-use", "whenToUse"], place: "metadata" },
  compatibility: {},
  "allowed-tools": { also: ["allowed_tools", "allowedTools"] },
  hosts: { isList: true, place: "sidecar" },
  env: { isList: true, place: "sidecar" },
  roots: { isList: true, place: "sidecar" },
  requirements: { isList: true, place: "sidecar" },
  binaries: { isList: true, place: "sidecar" },
  runtime: { place: "sidecar" },
};
const ORDER = Object.keys(FIELDS);

export interface Field {
  value: Value;
  isList: boolean;
  /** False if only the text can be edited, because the value is not one that the form can show. */
  isEditable: boolean;
  isThere: boolean;
  file: "content" | "sidecar";
  path: string[];
}

/** Return a field with its value, from the place that counts: the file beside the document comes first. */
export function findField(texts: Texts, name: FieldName): Field {
  const { also = [], isList = false, place } = FIELDS[name];
  const keys = [name, ...also];
  const front = splitDocument(texts.content);
  const places: [Field["file"], string, string[]][] = [];
  const isOpen = /^\uFEFF?---[ \t]*\n/.test(texts.content) && !front.head;
  if (texts.sidecar !== undefined && name !== "name" && name !== "description")
    for (const key of keys.map((one) => one.replaceAll("-", "_"))) places.push(["sidecar", texts.sidecar, [key]]);
  if (place !== "sidecar") for (const key of keys) places.push(["content", front.yaml, [key]]);
  if (place === "metadata") places.push(["content", front.yaml, ["metadata", name]]);
  for (const [file, yaml, path] of places) {
    const found = readField(yaml, path);
    if (!found) continue;
    const value = found.value ?? "";
    const isListed = found.isList || (isList && value === "");
    return {
      value: isListed && !Array.isArray(value) ? [] : value,
      isList: isListed,
      isEditable: found.value !== undefined,
      isThere: true,
      file,
      path,
    };
  }
  const file = place === "sidecar" ? "sidecar" : "content";
  // Frontmatter without an end has to be ended first, in the text.
  const isEditable = file === "sidecar" || !isOpen;
  return { value: isList ? [] : "", isList, isEditable, isThere: false, file, path: [name] };
}

/** Return the texts with another value of a field. Nothing else in them changes. */
export function changeField(texts: Texts, name: FieldName, value: Value): Texts {
  const field = findField(texts, name);
  if (!field.isThere && value.length === 0) return texts;
  const order = ORDER.slice(0, ORDER.indexOf(name));
  const change = (yaml: string) =>
    value.length === 0 && field.isList ? removeField(yaml, field.path) : writeField(yaml, field.path, value, order);
  return changeText(texts, field.file, change);
}

/** Return the texts without a field that is empty. */
export function dropEmptyField(texts: Texts, name: FieldName): Texts {
  const field = findField(texts, name);
  const isEmpty = field.isThere && field.isEditable && field.value.length === 0;
  if (!isEmpty) return texts;
  return changeText(texts, field.file, (yaml) => dropField(yaml, field.path));
}

function changeText(texts: Texts, file: Field["file"], change: (yaml: string) => string): Texts {
  if (file === "sidecar") return { ...texts, sidecar: change(texts.sidecar ?? "") };
  const { head, yaml, tail } = splitDocument(texts.content);
  const changed = change(yaml);
  if (!head && changed) return { ...texts, content: `---\n${changed}---\n\n${tail}` };
  return { ...texts, content: head + changed + tail };
}

/** Return a document in three parts: up to its frontmatter, the frontmatter, and the rest. */
export function splitDocument(text: string): { head: string; yaml: string; tail: string } {
  const start = /^\uFEFF?---[ \t]*\n/.exec(text)?.[0];
  if (start === undefined) return { head: "", yaml: "", tail: text };
  const rest = text.slice(start.length);
  const end = /^---[ \t]*$/m.exec(rest);
  if (!end) return { head: "", yaml: "", tail: text };
  return { head: start, yaml: rest.slice(0, end.index), tail: rest.slice(end.index) };
}
