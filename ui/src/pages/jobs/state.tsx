// The state of a job, and how far it is.
import type { Shapes } from "../../api/client";
import { t } from "../../i18n";
import { Badge, type Tone } from "../../parts/badge";

export type Job = Shapes["JobShape"];
export type JobState = Job["state"];

const TONES: Partial<Record<JobState, Tone>> = {
  running: "accent",
  waiting: "warn",
  succeeded: "good",
  failed: "bad",
  stopped: "warn",
};
const OPEN: JobState[] = ["queued", "running", "waiting"];

export function isOpen(job: Job): boolean {
  return OPEN.includes(job.state);
}

export function JobBadge({ state }: { state: JobState }) {
  return <Badge tone={TONES[state] ?? "plain"}>{t(`jobs.state_${state}`)}</Badge>;
}

export function Progress({ job, isLarge }: { job: Job; isLarge?: boolean }) {
  const share = (part: number) => `${job.total ? (100 * part) / job.total : 0}%`;
  const failed = Math.min(job.failed, job.total);
  // `done` counts what ended well.
  const done = Math.min(job.done, job.total - failed);
  return (
    <div class={isLarge ? "jobs-progress large" : "jobs-progress"}>
      <div
        class="jobs-bar"
        role="progressbar"
        aria-label={t("jobs.progress")}
        aria-valuemin={0}
        aria-valuemax={Math.max(job.total, 1)}
        aria-valuenow={done + failed}
      >
        <span class="done" style={{ width: share(done) }} />
        <span class="failed" style={{ width: share(failed) }} />
      </div>
      <p>
        {t("jobs.done_of", { done: done + failed, total: job.total })}
        {failed > 0 && <span class="bad"> · {t("jobs.failed_count", { count: failed })}</span>}
      </p>
    </div>
  );
}
