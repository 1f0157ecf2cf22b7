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
const LONGEST = 400_000;

interface Props {
  before: string;
  after: string;
  labels: [before: string, after: string];
}

export function Diff({ before, after, labels }: Props) {
  const [isWhole, setWhole] = useState(false);
  const rows = useMemo(() => compare(before.slice(0, LONGEST), after.slice(0, LONGEST)), [before, after]);
  const shown = useMemo(() => (isWhole ? rows : fold(rows)), [rows, isWhole]);
  if (rows.every((row) => row.kind === "same")) return <p class="quiet">{t("diff.same")}</p>;
  return (
    <div class="diff">
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
                  <td colSpan={4}>⋯</td>
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
        <Button look="plain" onClick={() => setWhole(true)}>
          {t("diff.whole")}
        </Button>
      )}
    </div>
  );
}

function compare(before: string, after: string): Row[] {
  const rows: Row[] = [];
  let left = 0;
  let right = 0;
  let removed: string[] = [];
  const pair = (added: string[]) => {
    for (let index = 0; index < Math.max(removed.length, added.length); index += 1) {
      const [old, now] = [removed[index], added[index]];
      rows.push({
        before: old,
        after: now,
        lines: [old === undefined ? undefined : ++left, now === undefined ? undefined : ++right],
        kind: "changed",
      });
    }
    removed = [];
  };
  for (const change of diffLines(before, after)) {
    const lines = change.value.replace(/\n$/, "").split("\n");
    if (change.removed) {
      pair([]);
      removed = lines;
    } else if (change.added) pair(lines);
    else {
      pair([]);
      for (const line of lines) rows.push({ before: line, after: line, lines: [++left, ++right], kind: "same" });
    }
  }
  pair([]);
  return rows;
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
