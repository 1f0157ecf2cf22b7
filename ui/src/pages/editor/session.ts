// One skill in the editor: what is stored, what is being written, and saving it without losing anything.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Problem } from "../../api/client";
import { onEvents } from "../../api/live";
import { t } from "../../i18n";
import { asProblem } from "../../parts/states";
import { say } from "../../parts/toast";
import type { Theirs } from "./conflict";
import {
  claimTab,
  dropDraft,
  type Edits,
  findDraft,
  isSame,
  type Kept,
  keepDraft,
  plainLines,
  withLinesOf,
} from "./draft";
import { SIDECAR } from "./fields";
import { createSkill, loadStored, loadText, SKILL_MD, type Stored, saveChanges } from "./stored";

export const NEW = "new";
const KEEP_MS = 150;
const TEMPLATE = `---
name: my-skill
description:
---

# My skill

`;

export interface Session {
  stored: Stored | undefined;
  edits: Edits | undefined;
  /** Why the skill could not be loaded. */
  problem: Problem | undefined;
  /** Why the last save failed. */
  refusal: Problem | undefined;
  /** The draft that was found in this browser. */
  restored: Kept | undefined;
  isChanged: boolean;
  /** True if the browser keeps the draft, False if it has no room. */
  isKept: boolean;
  hasConflict: boolean;
  /** True if somebody saved the skill since the edits began. */
  isBehind: boolean;
  scope: string;
  paths: string[];
  documentPath: string;
  changedPaths: Set<string>;
  /** The text of a file; undefined while it is loading, null if it is not text. */
  textOf: (path: string) => string | null | undefined;
  isStored: (path: string) => boolean;
  setText: (path: string, text: string | null) => void;
  setTexts: (texts: Record<string, string | null>) => void;
  setScope: (scope: string) => void;
  setConflict: (isOpen: boolean) => void;
  save: () => Promise<boolean>;
  discard: () => void;
  dismiss: () => void;
  take: (theirs: Theirs, how: "mine" | "theirs" | "merge") => void;
  createAgain: () => Promise<void>;
}

/** `address` is that of a stored skill, or empty; `from` the skill that a new one begins with. */
export function useSession(address: string, from: string, onCreated: (slug: string) => void): Session {
  // A copy has drafts of its own: another new skill that was begun is not what was asked for.
  const key = address || (from ? `${NEW}:${from}` : NEW);
  const [stored, setStored] = useState<Stored>();
  const [edits, setEdits] = useState<Edits>();
  const [texts, setTextCache] = useState<Record<string, string | null>>({});
  const [problem, setProblem] = useState<Problem>();
  const [refusal, setRefusal] = useState<Problem>();
  const [restored, setRestored] = useState<Kept>();
  const [scope, setScope] = useState("org");
  const [expected, setExpected] = useState("");
  const [latest, setLatest] = useState("");
  const [hasConflict, setConflict] = useState(false);
  const [isKept, setIsKept] = useState(true);
  const asked = useRef(new Set<string>());
  const begun = useRef<Edits>({ content: TEMPLATE, files: {} });
  const isWaiting = useRef(false);

  useEffect(() => {
    const abort = new AbortController();
    const open = async () => {
      await claimTab();
      const found = address ? await loadStored(address, abort.signal) : undefined;
      const start = found ? { content: plainLines(found.content), files: {} } : await startEdits(from, abort.signal);
      const kept = await findDraft(key);
      if (abort.signal.aborted) return;
      const isDraft = kept && !isSame(kept, start);
      begun.current = start;
      setStored(found);
      setExpected((isDraft && kept.base) || (found?.digest ?? ""));
      setLatest(found?.digest ?? "");
      setEdits(isDraft ? { content: kept.content, files: kept.files } : start);
      if (isDraft) {
        setRestored(kept);
        setScope(kept.scope);
      }
    };
    open().catch((error) => !abort.signal.aborted && setProblem(asProblem(error)));
    return () => abort.abort();
  }, [address]);

  const start: Edits = stored ? { content: plainLines(stored.content), files: {} } : begun.current;
  const isChanged = edits !== undefined && !isSame(edits, start);

  // What must be in the browser when the page goes away, however it goes.
  const keep = useRef(() => {});
  keep.current = () => {
    if (!edits) return;
    if (isChanged) setIsKept(keepDraft(key, { ...edits, base: expected, scope, at: Date.now() }));
    else dropDraft(key);
  };
  useEffect(() => {
    const timer = window.setTimeout(() => keep.current(), KEEP_MS);
    return () => window.clearTimeout(timer);
  }, [edits, expected, scope]);
  useEffect(() => {
    const flush = () => keep.current();
    window.addEventListener("pagehide", flush);
    return () => {
      window.removeEventListener("pagehide", flush);
      flush();
    };
  }, []);

  const load = (path: string) => {
    if (!stored || asked.current.has(path)) return;
    asked.current.add(path);
    loadText(stored.address, path).then(
      (text) => setTextCache((last) => ({ ...last, [path]: text })),
      (error) => {
        asked.current.delete(path);
        setProblem(asProblem(error));
      },
    );
  };
  const documentPath = stored?.path ?? SKILL_MD;
  const isStored = (path: string) => stored !== undefined && path in stored.sizes;
  useEffect(() => {
    if (isStored(SIDECAR)) load(SIDECAR);
  }, [stored]);

  const textOf = (path: string) => {
    if (path === documentPath) return edits?.content ?? "";
    const own = edits?.files[path];
    if (own !== undefined) return own;
    const found = texts[path];
    if (found === undefined) load(path);
    return typeof found === "string" ? plainLines(found) : found;
  };

  const setTexts = (changes: Record<string, string | null>) =>
    setEdits((last) => {
      if (!last) return last;
      const files = { ...last.files };
      let content = last.content;
      for (const [path, text] of Object.entries(changes)) {
        const base = texts[path];
        if (path === documentPath) content = text ?? "";
        else if (isStored(path) ? typeof base === "string" && plainLines(base) === text : text === null)
          delete files[path];
        else files[path] = text;
      }
      return { content, files };
    });

  const paths = [
    documentPath,
    ...[...new Set([...Object.keys(stored?.sizes ?? {}), ...Object.keys(edits?.files ?? {})])]
      .filter((path) => path !== documentPath && edits?.files[path] !== null)
      .sort(),
  ];
  const changedPaths = new Set(
    Object.keys(edits?.files ?? {}).filter((path) => edits?.files[path] !== start.files[path]),
  );
  if (edits && edits.content !== start.content) changedPaths.add(documentPath);

  /** Go on from what the server has now. What was typed meanwhile stays. */
  const settle = (now: Stored, saved: Edits) => {
    setStored(now);
    setExpected(now.digest);
    setLatest(now.digest);
    setTextCache((last) => ({ ...last, ...asStored(saved.files, last) }));
    setEdits((last) => {
      if (!last) return last;
      const content = last.content === saved.content ? plainLines(now.content) : last.content;
      const files = Object.fromEntries(Object.entries(last.files).filter(([path, text]) => saved.files[path] !== text));
      return { content, files };
    });
    setRestored(undefined);
    setRefusal(undefined);
  };

  const latestEdits = useRef(edits);
  latestEdits.current = edits;
  const create = async (sent: Edits) => {
    const made = await createSkill(sent, scope === "system" ? "org" : scope);
    say(t("editor.created", { name: made.name }));
    dropDraft(key);
    // What was typed while the server answered goes on as a draft of the new skill.
    const typed = latestEdits.current;
    if (typed && typed !== sent && address !== made.slug)
      keepDraft(made.slug, { ...typed, base: made.digest, scope, at: Date.now() });
    setEdits(undefined);
    onCreated(made.slug);
  };

  const busy = useRef(false);
  const saveWith = async (digest: string): Promise<boolean> => {
    if (!edits || busy.current) return false;
    const sent = edits;
    busy.current = true;
    keep.current();
    try {
      if (!stored) await create(sent);
      else {
        if (isChanged) await saveChanges(stored, sent, texts, digest);
        settle(await loadStored(stored.address), sent);
        say(t("editor.saved"));
      }
      isWaiting.current = false;
      return true;
    } catch (error) {
      const failed = asProblem(error);
      isWaiting.current = failed.isOffline;
      if (failed.status === 412) setConflict(true);
      setRefusal(failed.status === 412 ? undefined : failed);
      return false;
    } finally {
      busy.current = false;
    }
  };
  const newest = useRef(() => saveWith(expected));
  newest.current = () => saveWith(expected);
  const save = async () => {
    // The last change of the text is part of the page only after this moment.
    await new Promise((done) => window.setTimeout(done));
    return newest.current();
  };

  // A save that met no server is repeated when the server is back.
  useEffect(() => onEvents(["reconnected"], () => isWaiting.current && newest.current()), []);

  // Somebody else may have saved while this window was not looked at.
  useEffect(() => {
    if (!stored) return;
    const look = async () => {
      if (document.visibilityState !== "visible" || busy.current) return;
      const now = await loadStored(stored.address).catch(() => undefined);
      if (!now || now.digest === expected) return;
      if (isChanged) return setLatest(now.digest);
      asked.current = new Set();
      setTextCache({});
      settle(now, edits ?? { content: "", files: {} });
    };
    window.addEventListener("focus", look);
    return () => window.removeEventListener("focus", look);
  });

  const take = (theirs: Theirs, how: "mine" | "theirs" | "merge") => {
    setConflict(false);
    setRefusal(undefined);
    if (how === "mine") {
      // The new condition is known only here: state changes after this call.
      void saveWith(theirs.stored.digest);
      return;
    }
    const isOwnText = edits?.content !== start.content;
    setStored(theirs.stored);
    setExpected(theirs.stored.digest);
    setLatest(theirs.stored.digest);
    setTextCache(theirs.texts);
    asked.current = new Set(Object.keys(theirs.texts));
    if (how === "theirs") {
      setEdits({ content: plainLines(theirs.stored.content), files: {} });
      setRestored(undefined);
    } else if (!isOwnText) setEdits((last) => last && { ...last, content: plainLines(theirs.stored.content) });
  };

  return {
    stored,
    edits,
    problem,
    refusal,
    restored,
    isChanged,
    isKept,
    hasConflict,
    isBehind: latest !== "" && latest !== expected,
    scope,
    paths,
    documentPath,
    changedPaths,
    textOf,
    isStored,
    setText: (path, text) => setTexts({ [path]: text }),
    setTexts,
    setScope,
    setConflict,
    save,
    discard: () => {
      dropDraft(key);
      setRestored(undefined);
      setRefusal(undefined);
      setExpected(stored?.digest ?? "");
      setLatest(stored?.digest ?? "");
      setEdits(start);
    },
    dismiss: () => setRestored(undefined),
    take,
    createAgain: async () => {
      if (!edits) return;
      try {
        await create({ content: edits.content, files: { ...onlyTexts(texts), ...edits.files } });
      } catch (error) {
        setRefusal(asProblem(error));
      }
      setConflict(false);
    },
  };
}

/** Return files as they were saved: with the line ends that they had. */
function asStored(saved: Edits["files"], before: Record<string, string | null>): Edits["files"] {
  return Object.fromEntries(
    Object.entries(saved).map(([path, text]) => [path, text && withLinesOf(text, before[path] ?? "")]),
  );
}

function onlyTexts(texts: Record<string, string | null>): Record<string, string> {
  return Object.fromEntries(Object.entries(texts).filter((entry): entry is [string, string] => entry[1] !== null));
}

/** Return the edits that a new skill begins with: a template, or a copy of another skill. */
async function startEdits(from: string, signal: AbortSignal): Promise<Edits> {
  if (!from) return { content: TEMPLATE, files: {} };
  const other = await loadStored(from, signal);
  const files: Record<string, string> = {};
  for (const path of Object.keys(other.sizes).filter((one) => one !== other.path)) {
    const text = await loadText(from, path, signal);
    if (text !== null) files[path] = plainLines(text);
  }
  return { content: plainLines(other.content), files };
}
