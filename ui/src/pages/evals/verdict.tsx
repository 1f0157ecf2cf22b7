// Short answers about a run: did it pass, and did the skill help.
import { percent } from "../../format";
import { t } from "../../i18n";
import { Badge, type Tone } from "../../parts/badge";
import { type Interval, ownArm, type Run } from "./run";

export function Verdict({ run }: { run: Run }) {
  if (run.state === "running")
    return <Badge tone="accent">{t("evals.running", { done: run.done, total: run.total })}</Badge>;
  const own = run.summary?.arms[ownArm(run)];
  if (run.state === "interrupted") return <Badge tone="warn">{t("evals.interrupted")}</Badge>;
  if (run.state === "stopped") return <Badge tone="warn">{t("evals.stopped")}</Badge>;
  if (!own) return <Badge>{t("evals.no_result")}</Badge>;
  if (own.failed) return <Badge tone="bad">{t("evals.failed", { count: own.failed, total: own.answers })}</Badge>;
  if (own.errors) return <Badge tone="warn">{t("evals.errors", { count: own.errors })}</Badge>;
  return <Badge tone="good">{t("evals.passed")}</Badge>;
}

const TONES: Record<string, Tone> = { better: "good", worse: "bad" };

/** Whether the skill helps, as the statistics say. */
export function Difference({ verdict }: { verdict: string }) {
  const words =
    verdict === "better" ? t("evals.better") : verdict === "worse" ? t("evals.worse") : t("evals.no_difference");
  return <Badge tone={TONES[verdict] ?? "plain"}>{words}</Badge>;
}

export function range(interval: Interval | undefined): string {
  if (!interval || interval.mean === null) return "–";
  const bounds =
    interval.low === null || interval.high === null ? "" : ` (${percent(interval.low)} – ${percent(interval.high)})`;
  return percent(interval.mean) + bounds;
}

/** A rate with its interval, drawn as a line with a band around it. */
export function Band({ interval }: { interval: Interval }) {
  if (interval.mean === null) return null;
  const low = Math.max(0, interval.low ?? interval.mean);
  const high = Math.min(1, interval.high ?? interval.mean);
  return (
    <span class="evals-band" aria-hidden="true">
      <span class="evals-band-range" style={{ left: `${low * 100}%`, width: `${(high - low) * 100}%` }} />
      <span class="evals-band-mean" style={{ left: `${interval.mean * 100}%` }} />
    </span>
  );
}

/** Return a difference of shares with its sign. */
export function signed(share: number | null): string {
  return share === null ? "–" : `${share > 0 ? "+" : ""}${percent(share)}`;
}

/** A difference with its interval, drawn around a line for "no difference". */
export function Whisker({ interval, isMoreBetter }: { interval: Interval; isMoreBetter: boolean }) {
  const { mean, low, high } = interval;
  if (mean === null || low === null || high === null) return null;
  const extent = Math.max(Math.abs(low), Math.abs(high)) * 1.15 || 1;
  const place = (value: number) => 50 + (value / extent) * 50;
  // Only an interval on one side of zero gets the color of better or worse.
  const side = low > 0 ? 1 : high < 0 ? -1 : 0;
  const tone = side === 0 ? "" : side > 0 === isMoreBetter ? " evals-good" : " evals-bad";
  return (
    <span class={`evals-whisker${tone}`} aria-hidden="true">
      <span class="evals-whisker-range" style={{ left: `${place(low)}%`, width: `${place(high) - place(low)}%` }} />
      <span class="evals-whisker-mean" style={{ left: `${place(mean)}%` }} />
    </span>
  );
}
