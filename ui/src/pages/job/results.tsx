// The results of a batch: thousands of rows of which only those in view are loaded.
import { useEffect, useRef, useState } from "preact/hooks";
import { api, ask, type Problem, type Shapes } from "../../api/client";
import { onSettled } from "../../api/load";
import { cost, count, duration } from "../../format";
import { t } from "../../i18n";
import { Badge } from "../../parts/badge";
import { Button, Choice } from "../../parts/controls";
import { Dialog } from "../../parts/dialog";
import { asProblem, Empty, ProblemBox, Words } from "../../parts/states";
import { VirtualList } from "../../parts/virtual";
import type { Job } from "../jobs/state";
import { TextView } from "../trace/text";

export type Result = Shapes["JobResultShape"] & {
  output?: unknown;
  error?: { code: string; message: string; hint?: string } | null;
  traces?: string[];
  cost_usd?: number | null;
  duration_ms?: number;
};

const PAGE = 100;
const ROW_PIXELS = 46;
const PREVIEW_CHARS = 300;

type Which = "all" | "failed";

export function Results({ job }: { job: Job }) {
  const [which, setWhich] = useState<Which>("all");
  const [opened, setOpened] = useState<Result | undefined>(undefined);
  const total = which === "failed" ? job.failed : job.total;
  const { rows, problem, need, retry } = useResults(job, which, total);
  return (
    <section aria-labelledby="job-results">
      <div class="job-results-head">
        <h2 id="job-results">{t("jobs.results")}</h2>
        <Choice<Which>
          label={t("jobs.show")}
          value={which}
          options={[
            { value: "all", label: t("jobs.every"), count: job.total },
            { value: "failed", label: t("jobs.only_failed"), count: job.failed },
          ]}
          onChange={setWhich}
        />
      </div>
      {problem && <ProblemBox problem={problem} onRetry={retry} />}
      {total === 0 ? (
        <Empty title={t("jobs.no_failed")} />
      ) : (
        <VirtualList
          key={which}
          label={t("jobs.results")}
          count={total}
          rowHeight={ROW_PIXELS}
          onRange={need}
          render={(index) => <Row result={rows.get(index)} onOpen={setOpened} />}
        />
      )}
      {opened && <Opened result={opened} onClose={() => setOpened(undefined)} />}
    </section>
  );
}

/** Return the rows by their place in the list, and a function that loads those of a range. */
function useResults(job: Job, which: Which, total: number) {
  const [rows, setRows] = useState(new Map<number, Result>());
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  const range = useRef<[number, number]>([0, PAGE]);
  const busy = useRef(new Set<number>());
  const latest = useRef(rows);
  const life = useRef(0);
  const read = async (page: number) => {
    if (busy.current.has(page)) return;
    busy.current.add(page);
    const began = life.current;
    try {
      const before = page * PAGE - 1;
      // Failed items are not next to each other: a page of them begins after the last one of the page before.
      const after = which === "all" || page === 0 ? before : (latest.current.get(before)?.index ?? -1);
      if (which === "failed" && page > 0 && !latest.current.has(before)) return;
      const query = { limit: PAGE, after, ...(which === "failed" && { failed: true }) };
      const found = await ask(api.GET("/api/v1/jobs/{id}/results", { params: { path: { id: job.id }, query } }));
      if (began !== life.current) return;
      setProblem(undefined);
      setRows((last) => {
        const next = new Map(last);
        for (const [place, item] of found.items.entries()) next.set(page * PAGE + place, item as Result);
        latest.current = next;
        return next;
      });
    } catch (error) {
      if (began === life.current) setProblem(asProblem(error));
    } finally {
      busy.current.delete(page);
    }
  };
  const need = (first: number, last: number, isAgain = false) => {
    range.current = [first, last];
    for (let page = Math.floor(first / PAGE); page * PAGE < Math.min(last, total); page += 1)
      if (isAgain || !latest.current.has(page * PAGE)) void read(page);
  };
  useEffect(() => {
    life.current += 1;
    busy.current.clear();
    latest.current = new Map();
    setRows(latest.current);
    need(0, PAGE);
  }, [job.id, which, job.attempt]);
  useEffect(
    () => onSettled(["job_changed", "reconnected"], () => need(...range.current, true)),
    [job.id, which, total],
  );
  // The next page of failed items can be read when the one before is there.
  useEffect(() => {
    if (which === "failed") need(...range.current);
  }, [rows.size]);
  return { rows, problem, need, retry: () => need(...range.current, true) };
}

function Row({ result, onOpen }: { result: Result | undefined; onOpen: (result: Result) => void }) {
  if (!result)
    return (
      <div class="job-row">
        <span class="quiet">…</span>
      </div>
    );
  const isPending = result.ok === null;
  return (
    <div class="job-row">
      <span class="job-index quiet">{count(result.index + 1)}</span>
      <Badge tone={isPending ? "plain" : result.ok ? "good" : "bad"}>
        {isPending ? t("jobs.pending") : result.ok ? t("jobs.item_ok") : t("jobs.item_failed")}
      </Badge>
      {isPending ? (
        <span />
      ) : (
        <button type="button" class="job-preview" onClick={() => onOpen(result)}>
          {result.error ? result.error.message.slice(0, PREVIEW_CHARS) : preview(result.output)}
        </button>
      )}
      <span class="job-took quiet">{result.duration_ms === undefined ? "" : duration(result.duration_ms)}</span>
      <span class="job-cost quiet">{result.cost_usd == null ? "" : cost(result.cost_usd)}</span>
    </div>
  );
}

function Opened({ result, onClose }: { result: Result; onClose: () => void }) {
  const text = asText(result.output);
  return (
    <Dialog title={`${t("jobs.result")} ${count(result.index + 1)}`} onClose={onClose} isWide>
      {result.error && (
        <div class="problem">
          <p>
            <Words text={result.error.message} />
          </p>
          {result.error.hint && (
            <p class="quiet">
              <Words text={result.error.hint} />
            </p>
          )}
        </div>
      )}
      {text && <TextView text={text} label={t("jobs.result")} />}
      {(result.traces ?? []).length > 0 && (
        <p class="actions">
          {(result.traces ?? []).map((id) => (
            <a key={id} class="button" href={`/traces/${id}`}>
              {t("jobs.trace")} {id.slice(0, 8)}
            </a>
          ))}
        </p>
      )}
    </Dialog>
  );
}

function asText(output: unknown): string {
  if (output === null || output === undefined) return "";
  return typeof output === "string" ? output : JSON.stringify(output, null, 2);
}

function preview(output: unknown): string {
  const text = typeof output === "string" ? output : (JSON.stringify(output) ?? "");
  return text.slice(0, PREVIEW_CHARS).replace(/\s+/g, " ") || "–";
}

/** A button that saves all results as a file, one line of JSON for each. */
export function Download({ job }: { job: Job }) {
  const [done, setDone] = useState(-1);
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  const save = async () => {
    setProblem(undefined);
    try {
      const lines: string[] = [];
      let after = -1;
      for (;;) {
        setDone(lines.length);
        const query = { limit: 200, after };
        const page = await ask(api.GET("/api/v1/jobs/{id}/results", { params: { path: { id: job.id }, query } }));
        lines.push(...page.items.map((item) => `${JSON.stringify(item)}\n`));
        if (!page.next_cursor) break;
        after = page.items.at(-1)?.index ?? Number.MAX_SAFE_INTEGER;
      }
      offer(new Blob(lines, { type: "application/x-ndjson" }), `${job.name}.jsonl`);
    } catch (error) {
      setProblem(asProblem(error));
    } finally {
      setDone(-1);
    }
  };
  return (
    <>
      <Button onClick={save}>
        {done < 0 ? t("jobs.download") : `${t("jobs.downloading")} ${count(done)} / ${count(job.total)}`}
      </Button>
      {problem && <ProblemBox problem={problem} />}
    </>
  );
}

function offer(content: Blob, name: string) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  window.setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
