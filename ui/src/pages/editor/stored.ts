// The skill as the server has it: loading it, its files, and saving the changes to it.
import { api, ask, Problem, problemOf, type Shapes } from "../../api/client";
import { type Edits, plainLines, withLinesOf } from "./draft";

export const SKILL_MD = "SKILL.md";

export interface Stored {
  /** How the server is asked for it: its slug, or `scope:slug`. */
  address: string;
  slug: string;
  scope: string;
  name: string;
  digest: string;
  /** The path of the document in the files. */
  path: string;
  /** The document, byte for byte. */
  content: string;
  sizes: Record<string, number>;
}

export async function loadStored(address: string, signal?: AbortSignal): Promise<Stored> {
  const params = { path: { id: address } };
  const [skill, list] = await Promise.all([
    ask(api.GET("/api/v1/skills/{id}", { params, signal })),
    ask(api.GET("/api/v1/skills/{id}/files", { params, signal })),
  ]);
  // Somebody saved between the two answers.
  if (skill.digest !== list.digest) return loadStored(address, signal);
  return describe(address, skill, list.files);
}

function describe(
  address: string,
  skill: Shapes["WholeSkillShape"],
  files: { path: string; size: number; sha256: string }[],
): Stored {
  const document =
    files.find((file) => file.sha256 === skill.content_hash) ?? files.find((file) => /^skills?\.md$/i.test(file.path));
  return {
    address,
    slug: skill.slug,
    scope: skill.scope,
    name: skill.name,
    digest: skill.digest,
    path: document?.path ?? SKILL_MD,
    content: skill.content ?? "",
    sizes: Object.fromEntries(files.map((file) => [file.path, file.size])),
  };
}

/** Return the text of a file, or null if it is not text. */
export async function loadText(address: string, path: string, signal?: AbortSignal): Promise<string | null> {
  const place = path.split("/").map(encodeURIComponent).join("/");
  let answer: Response;
  try {
    answer = await fetch(`/api/v1/skills/${encodeURIComponent(address)}/files/${place}`, { signal });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, "offline", "");
  }
  if (!answer.ok) throw problemOf(answer.status, await answer.json().catch(() => null));
  const isText = answer.headers.get("content-type")?.startsWith("text/");
  return isText ? answer.text() : null;
}

/** Store a new skill. */
export function createSkill(edits: Edits, scope: string): Promise<Shapes["WholeSkillShape"]> {
  const files = Object.fromEntries(Object.entries(edits.files).filter(([, text]) => text !== null));
  const body = { content: edits.content, files, scope } as unknown as Shapes["NewSkillBody"];
  return ask(api.POST("/api/v1/skills", { body }));
}

/** Store the changes to a skill if it still has a digest. Throw a problem with the status 412 if it has another one. */
export function saveChanges(
  stored: Stored,
  edits: Edits,
  texts: Record<string, string | null>,
  digest: string,
): Promise<Shapes["WholeSkillShape"]> {
  const files = Object.entries(edits.files).map(([path, text]) => [path, text && withLinesOf(text, texts[path] ?? "")]);
  const body = {
    ...(edits.content === plainLines(stored.content) ? {} : { content: withLinesOf(edits.content, stored.content) }),
    ...(files.length ? { files: Object.fromEntries(files) } : {}),
  } as unknown as Shapes["SkillChangeBody"];
  return ask(
    api.PUT("/api/v1/skills/{id}", {
      params: { path: { id: stored.address } },
      headers: { "If-Match": `"${digest}"` },
      body,
    }),
  );
}
