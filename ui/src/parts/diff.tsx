// Two texts side by side, with the changed lines marked.
import { diffLines } from "diff";
import { useMemo, useState } from "preact/hooks";
import { t } from "../i18n";
import { Button } from "./controls";

interface Row {
  before?: string;
  after?: string;
  lines: [number | undefined, number | undefined];
  kind: "same" | "changed" | "skipped";
}

const CONTEXT = 3;
const SHOWN_ROWS = 1_000;
/** Texts that have nothing in common take minutes to compare. */
const MOST_MS = 2_000;

interface Props {
  before: string;
  after: string;
  labels: [before: string, after: string];
}

export function Diff({ before, after, labels }: Props) {
  const [isWhole, setWhole] = useState(false);
  const rows = useMemo(() => compare(before, after), [before, after]);
  const shown = useMemo(() => (isWhole ? rows : fold(rows)), [rows, isWhole]);
  if (rows.every((row) => row.kind === "same")) return <p class="quiet">{t("diff.same")}</p>;
  return (
    <div class="diff">
      <Table rows={shown} labels={labels} />
      {shown.length < rows.length && (
        <Button look="plain" onClick={() => setWhole(true)}>
          {t("diff.whole")}
        </Button>
      )}
    </div>
  );
}

/** A unified diff of the server side by side. What is not a diff, such as a sentence about a picture, is shown as it is. */
export function UnifiedDiff({ text, labels }: { text: string; labels?: Props["labels"] }) {
  const rows = useMemo(() => parse(text), [text]);
  if (rows.every((row) => row.kind === "skipped")) return <p class="quiet">{text}</p>;
  return (
    <div class="diff">
      <Table rows={rows} labels={labels ?? [t("diff.before"), t("diff.after")]} />
    </div>
  );
}

function Table({ rows, labels }: { rows: Row[]; labels: Props["labels"] }) {
  const [isLong, setLong] = useState(false);
  const shown = isLong ? rows : rows.slice(0, SHOWN_ROWS);
  return (
    <>
      <section class="scroll" tabIndex={0} aria-label={t("diff.label", { before: labels[0], after: labels[1] })}>
        <table>
          <colgroup>
            <col class="number" />
            <col />
            <col class="number" />
            <col />
          </colgroup>
          <thead>
            <tr>
              <th colSpan={2}>{labels[0]}</th>
              <th colSpan={2}>{labels[1]}</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((row, number) =>
              row.kind === "skipped" ? (
                <tr key={number} class="skipped">
                  <td colSpan={4}>{row.before ?? "⋯"}</td>
                </tr>
              ) : (
                <tr key={number}>
                  <td class="number">{row.lines[0]}</td>
                  <td class={row.kind === "changed" && row.before !== undefined ? "removed" : ""}>{row.before}</td>
                  <td class="number">{row.lines[1]}</td>
                  <td class={row.kind === "changed" && row.after !== undefined ? "added" : ""}>{row.after}</td>
                </tr>
              ),
            )}
          </tbody>
        </table>
      </section>
      {shown.length < rows.length && (
        <Button look="plain" onClick={() => setLong(true)}>
          {t("card.more_lines", { count: rows.length - shown.length })}
        </Button>
      )}
    </>
  );
}

/** Collects the rows of two texts: lines that were removed stand beside those that were added in their place. */
class Rows {
  readonly rows: Row[] = [];
  private left = 0;
  private right = 0;
  private removed: string[] = [];
  private added: string[] = [];

  startAt(left: number, right: number, title?: string) {
    this.flush();
    [this.left, this.right] = [left - 1, right - 1];
    this.rows.push({ before: title, lines: [undefined, undefined], kind: "skipped" });
  }

  note(line: string) {
    this.flush();
    this.rows.push({ before: line, lines: [undefined, undefined], kind: "skipped" });
  }

  remove(line: string) {
    if (this.added.length) this.flush();
    this.removed.push(line);
  }

  add(line: string) {
    this.added.push(line);
  }

  keep(line: string) {
    this.flush();
    this.left += 1;
    this.right += 1;
    this.rows.push({ before: line, after: line, lines: [this.left, this.right], kind: "same" });
  }

  flush() {
    for (let index = 0; index < Math.max(this.removed.length, this.added.length); index += 1) {
      const [before, after] = [this.removed[index], this.added[index]];
      if (before !== undefined) this.left += 1;
      if (after !== undefined) this.right += 1;
      const lines: Row["lines"] = [
        before === undefined ? undefined : this.left,
        after === undefined ? undefined : this.right,
      ];
      this.rows.push({ before, after, lines, kind: "changed" });
    }
    [this.removed, this.added] = [[], []];
  }
}

function compare(before: string, after: string): Row[] {
  const made = new Rows();
  const changes = diffLines(before, after, { timeout: MOST_MS }) ?? [
    { value: before, removed: true, added: false },
    { value: after, removed: false, added: true },
  ];
  for (const change of changes)
    for (const line of change.value.replace(/\n$/, "").split("\n"))
      if (change.removed) made.remove(line);
      else if (change.added) made.add(line);
      else made.keep(line);
  made.flush();
  return made.rows;
}

const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/;

function parse(text: string): Row[] {
  const made = new Rows();
  // The name of the file matters only if there are several.
  const isMany = text.split("\n+++ ").length > 2;
  let file = "";
  // How many lines of each text the hunk still has. A line of a text may look like the header of a file.
  let [left, right] = [0, 0];
  for (const line of text.replace(/\n$/, "").split("\n")) {
    if (left > 0 || right > 0) {
      const kind = line.charAt(0);
      if (kind === "\\") continue;
      if (kind === "-") made.remove(line.slice(1));
      else if (kind === "+") made.add(line.slice(1));
      else made.keep(line.slice(1));
      if (kind !== "+") left -= 1;
      if (kind !== "-") right -= 1;
      continue;
    }
    const hunk = HUNK.exec(line);
    if (hunk) {
      made.startAt(Number(hunk[1]), Number(hunk[3]), (isMany && file) || undefined);
      [left, right] = [Number(hunk[2] ?? 1), Number(hunk[4] ?? 1)];
      file = "";
    } else if (line.startsWith("+++ ")) file = line.slice(4).replace(/^b\//, "");
    // Such as a sentence about a file that is not text.
    else if (line && !line.startsWith("--- ")) made.note(line);
  }
  made.flush();
  return made.rows;
}

/** Leave out the lines that are far from any change. */
function fold(rows: Row[]): Row[] {
  const near = new Set<number>();
  rows.forEach((row, number) => {
    if (row.kind === "changed")
      for (let index = number - CONTEXT; index <= number + CONTEXT; index += 1) near.add(index);
  });
  const folded: Row[] = [];
  rows.forEach((row, number) => {
    if (near.has(number)) folded.push(row);
    else if (folded.at(-1)?.kind !== "skipped") folded.push({ lines: [undefined, undefined], kind: "skipped" });
  });
  return folded;
}
