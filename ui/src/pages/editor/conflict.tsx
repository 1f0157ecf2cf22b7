// Somebody else saved the skill first: both texts side by side, and what to do about it.
import { diffLines } from "diff";
import { useEffect, useState } from "preact/hooks";
import type { Problem } from "../../api/client";
import { t } from "../../i18n";
import { Button } from "../../parts/controls";
import { Dialog } from "../../parts/dialog";
import { Diff } from "../../parts/diff";
import { asProblem, Loading, ProblemBox } from "../../parts/states";
import { type Edits, plainLines } from "./draft";
import { loadStored, loadText, type Stored } from "./stored";

/** The skill as it is now, with the texts of the files that the draft changes, too. */
export interface Theirs {
  stored: Stored;
  texts: Record<string, string | null>;
}

interface Props {
  address: string;
  /** The document that the edits began with. */
  before: string;
  edits: Edits;
  onClose: () => void;
  onMine: (theirs: Theirs) => unknown;
  onTheirs: (theirs: Theirs) => void;
  onMerge: (theirs: Theirs) => void;
  onCreate: () => unknown;
}

export function ConflictDialog({ address, before, edits, onClose, onMine, onTheirs, onMerge, onCreate }: Props) {
  const [theirs, setTheirs] = useState<Theirs>();
  const [problem, setProblem] = useState<Problem>();
  useEffect(() => {
    loadTheirs(address, edits).then(setTheirs, (error) => setProblem(asProblem(error)));
  }, []);
  const isGone = problem?.status === 404;
  const actions = theirs ? (
    <>
      <Button onClick={() => onTheirs(theirs)}>{t("editor.take_theirs")}</Button>
      <Button onClick={() => onMerge(theirs)}>{t("editor.merge")}</Button>
      <Button look="primary" onClick={() => onMine(theirs)}>
        {t("editor.keep_mine")}
      </Button>
    </>
  ) : isGone ? (
    <Button look="primary" onClick={onCreate}>
      {t("editor.create_again")}
    </Button>
  ) : undefined;
  return (
    <Dialog title={t("editor.conflict")} isWide onClose={onClose} actions={actions}>
      <p>{t(isGone ? "editor.conflict_gone" : "editor.conflict_text")}</p>
      {problem && !isGone && <ProblemBox problem={problem} />}
      {!theirs && !problem && <Loading />}
      {theirs &&
        differences(theirs, edits, before).map(({ path, one, other }) => (
          <section key={path} aria-label={path}>
            <h3>{path}</h3>
            <Diff before={one} after={other} labels={[t("editor.theirs"), t("editor.mine")]} />
          </section>
        ))}
    </Dialog>
  );
}

async function loadTheirs(address: string, edits: Edits): Promise<Theirs> {
  const stored = await loadStored(address);
  const paths = Object.keys(edits.files).filter((path) => path in stored.sizes);
  const texts = await Promise.all(paths.map((path) => loadText(address, path)));
  return { stored, texts: Object.fromEntries(paths.map((path, number) => [path, texts[number] ?? null])) };
}

function differences(theirs: Theirs, edits: Edits, before: string) {
  const files = Object.entries(edits.files).map(([path, text]) => ({
    path,
    one: plainLines(theirs.texts[path] ?? ""),
    other: text ?? "",
  }));
  const document = { path: theirs.stored.path, one: plainLines(theirs.stored.content), other: edits.content };
  // A document that only they changed is not in question: saving leaves it as it is.
  return [...(edits.content === before ? [] : [document]), ...files].filter(({ one, other }) => one !== other);
}

interface MergeProps {
  theirs: string;
  mine: string;
  onChange: (text: string) => void;
  onDone: () => void;
}

const MOST_CHANGES = 100;

/** Each place where the two texts differ, with a button that takes the other text there. */
export function MergePanel({ theirs, mine, onChange, onDone }: MergeProps) {
  const changes = hunks(mine, theirs);
  return (
    <section class="card" aria-label={t("editor.merge")}>
      <h2>{t("editor.merge_title")}</h2>
      <p class="quiet">{changes.length ? t("editor.merge_text") : t("editor.merge_same")}</p>
      {changes.slice(0, MOST_CHANGES).map((change, number) => (
        <div key={number} class="editor-hunk">
          <p class="editor-item-head">
            <span class="quiet">{t("editor.merge_line", { line: change.line })}</span>
            <Button onClick={() => onChange(mine.slice(0, change.from) + change.theirs + mine.slice(change.to))}>
              {t("editor.merge_take")}
            </Button>
          </p>
          <Diff before={change.theirs} after={change.mine} labels={[t("editor.theirs"), t("editor.mine")]} />
        </div>
      ))}
      <Button onClick={onDone}>{t("editor.merge_done")}</Button>
    </section>
  );
}

interface Hunk {
  from: number;
  to: number;
  line: number;
  mine: string;
  theirs: string;
}

function hunks(mine: string, theirs: string): Hunk[] {
  const found: Hunk[] = [];
  let at = 0;
  let line = 1;
  let open: Hunk | undefined;
  for (const change of diffLines(mine, theirs)) {
    if (!change.added && !change.removed) open = undefined;
    else if (!open) {
      open = { from: at, to: at, line, mine: "", theirs: "" };
      found.push(open);
    }
    if (open && change.added) open.theirs += change.value;
    if (!change.added) {
      at += change.value.length;
      line += change.value.split("\n").length - 1;
    }
    if (open && change.removed) {
      open.mine += change.value;
      open.to = at;
    }
  }
  return found;
}
