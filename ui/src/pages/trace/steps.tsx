// The steps of a run on one time axis: which artifact ran when, for how long, and what replaced what.
import { api, ask } from "../../api/client";
import { usePages } from "../../api/load";
import { duration } from "../../format";
import { t } from "../../i18n";
import { More } from "../../parts/states";
import { StatusBadge, Took, type Trace } from "../traces/status";

export function Steps({ trace }: { trace: Trace }) {
  const run = usePages(
    (page, signal) => ask(api.GET("/api/v1/traces", { params: { query: { ...page, run: trace.run_id } }, signal })),
    [trace.run_id],
    ["run_started", "run_finished"],
  );
  const steps = order(run.data?.items ?? []);
  if (steps.length < 2) return null;
  const starts = steps.map(({ step }) => Date.parse(step.started_at));
  const ends = steps.map(({ step }, row) => (starts[row] as number) + (step.duration_ms ?? 0));
  const first = Math.min(...starts);
  // A run that goes on reaches at least a second, so that its bar is seen.
  const span = Math.max(...ends, first + 1) - first;
  return (
    <section aria-labelledby="trace-steps">
      <h2 id="trace-steps">{t("trace.steps")}</h2>
      <ol class="trace-steps">
        {steps.map(({ step, depth, replaced }, row) => (
          <li key={step.id} class={step.id === trace.id ? "here" : undefined}>
            <span class="trace-step-name" style={{ paddingLeft: `${depth * 1.1}rem` }}>
              <a href={`/traces/${step.id}`} aria-current={step.id === trace.id ? "page" : undefined}>
                {step.artifact_name}
              </a>
              {replaced && <span class="quiet"> {t("trace.instead_of", { name: replaced })}</span>}
            </span>
            <StatusBadge status={step.status} />
            <span class="trace-lane">
              <span
                class={`trace-bar ${step.status}`}
                style={{
                  left: `${(100 * ((starts[row] as number) - first)) / span}%`,
                  width: `${(100 * ((ends[row] as number) - (starts[row] as number))) / span}%`,
                }}
              />
            </span>
            <span class="number">
              <Took trace={step} />
            </span>
          </li>
        ))}
      </ol>
      {run.data?.next_cursor && <More of={run} />}
    </section>
  );
}

interface Placed {
  step: Trace;
  depth: number;
  /** The name of the artifact that it replaced. */
  replaced: string;
}

/** Return the steps in the order of their start, each with what replaced it below it. */
function order(traces: Trace[]): Placed[] {
  const byId = new Map(traces.map((one) => [one.id, one]));
  const sorted = [...traces].sort((one, other) => one.started_at.localeCompare(other.started_at));
  const placed: Placed[] = [];
  const place = (step: Trace, depth: number) => {
    placed.push({ step, depth, replaced: byId.get(step.fallback_of ?? "")?.artifact_name ?? "" });
    for (const other of sorted) if (other.fallback_of === step.id && other.id !== step.id) place(other, depth + 1);
  };
  for (const step of sorted) if (!step.fallback_of || !byId.has(step.fallback_of)) place(step, 0);
  return placed;
}

/** Where the time of one step went: the phases that it measured itself. */
export function Phases({ timings }: { timings: unknown }) {
  if (typeof timings !== "object" || timings === null) return null;
  const phases = Object.entries(timings).filter(
    (one): one is [string, number] => one[0] !== "total" && typeof one[1] === "number" && one[1] > 0,
  );
  const sum = phases.reduce((total, [, ms]) => total + ms, 0);
  if (phases.length < 2) return null;
  return (
    <section aria-labelledby="trace-phases">
      <h2 id="trace-phases">{t("trace.phases")}</h2>
      <div class="trace-phases" aria-hidden="true">
        {phases.map(([name, ms], number) => (
          <span key={name} class={`phase-${(number % 6) + 1}`} style={{ flexGrow: ms / sum }} title={name} />
        ))}
      </div>
      <ul class="trace-legend">
        {phases.map(([name, ms], number) => (
          <li key={name}>
            <span class={`dot phase-${(number % 6) + 1}`} aria-hidden="true" /> {name.replaceAll("_", " ")}{" "}
            <span class="quiet">{duration(ms)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}
