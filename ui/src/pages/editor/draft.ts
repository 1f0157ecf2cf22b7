// The text that a person is writing, and its copy in this browser, so that a reload, a crash or a lost server costs nothing.

/** What is being written: the document, and files that differ from the stored ones. A text of null removes a file. */
export interface Edits {
  content: string;
  files: Record<string, string | null>;
}

/** Return True if two edits have the same texts. */
export function isSame(one: Edits, other: Edits): boolean {
  const paths = Object.keys(one.files);
  return (
    one.content === other.content &&
    paths.length === Object.keys(other.files).length &&
    paths.every((path) => one.files[path] === other.files[path])
  );
}

export interface Kept extends Edits {
  /** The digest of the skill that the edits began with; empty for a new skill. */
  base: string;
  /** Where a new skill will be kept. */
  scope: string;
  at: number;
}

const PREFIX = "draft/";
const TAB_KEY = "draft-tab";

/** The name of this tab. It stays the same when the tab is reloaded, so that two tabs never share a draft. */
let tab = "";
let isClaimed = false;

/** Take the name of this tab, or a new one if another tab has it (a tab that was duplicated). */
export async function claimTab(): Promise<void> {
  if (isClaimed) return;
  isClaimed = true;
  tab = sessionStorage.getItem(TAB_KEY) ?? newName();
  while (navigator.locks && !(await hold(tab))) tab = newName();
  sessionStorage.setItem(TAB_KEY, tab);
}

const newName = () => Math.random().toString(36).slice(2, 10);

/** Hold the lock of a name as long as this tab lives. Return False if another tab holds it. */
function hold(name: string): Promise<boolean> {
  return new Promise((answer) => {
    navigator.locks.request(`draft/${name}`, { ifAvailable: true }, (lock) => {
      answer(lock !== null);
      return lock ? new Promise<never>(() => {}) : undefined;
    });
  });
}

/** Keep a draft. Return False if the browser has no room for it. */
export function keepDraft(skill: string, kept: Kept): boolean {
  try {
    localStorage.setItem(`${PREFIX}${skill}/${tab}`, JSON.stringify(kept));
    return true;
  } catch {
    return false;
  }
}

export function dropDraft(skill: string): void {
  localStorage.removeItem(`${PREFIX}${skill}/${tab}`);
}

/** Return the draft of this tab, or the newest one of a tab that is gone, which becomes this tab's. */
export async function findDraft(skill: string): Promise<Kept | undefined> {
  const own = read(`${PREFIX}${skill}/${tab}`);
  if (own) return own;
  const open = await openTabs();
  const left = Object.keys(localStorage)
    .filter((key) => key.startsWith(`${PREFIX}${skill}/`) && !open.has(key.slice(key.lastIndexOf("/") + 1)))
    .map((key) => ({ key, kept: read(key) }))
    .sort((one, other) => (other.kept?.at ?? 0) - (one.kept?.at ?? 0))[0];
  if (!left?.kept) return undefined;
  if (keepDraft(skill, left.kept)) localStorage.removeItem(left.key);
  return left.kept;
}

async function openTabs(): Promise<Set<string>> {
  if (!navigator.locks) return new Set();
  const held = (await navigator.locks.query()).held ?? [];
  return new Set(held.map((lock) => lock.name?.replace(/^draft\//, "") ?? ""));
}

function read(key: string): Kept | undefined {
  try {
    const found = JSON.parse(localStorage.getItem(key) ?? "null") as Kept | null;
    return found && typeof found.content === "string" && typeof found.files === "object" ? found : undefined;
  } catch {
    return undefined;
  }
}

/** Return a text with line feeds alone, as the editor has it. */
export function plainLines(text: string): string {
  return text.replace(/\r\n?/g, "\n");
}

/** Return a text with the line ends of the stored one. */
export function withLinesOf(text: string, stored: string): string {
  const isWindows = stored.includes("\r\n") && !/(^|[^\r])\n/.test(stored);
  return isWindows ? text.replaceAll("\n", "\r\n") : text;
}
