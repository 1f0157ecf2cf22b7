// One job: how far it is, what it costs, its results, and what to do if it stopped.
import { useState } from "preact/hooks";
import { useRoute } from "preact-iso";
import { api, ask } from "../api/client";
import { useLoad } from "../api/load";
import { ago, cost, duration, moment } from "../format";
import { t } from "../i18n";
import { Badge } from "../parts/badge";
import { Button, NumberField } from "../parts/controls";
import { Json } from "../parts/json";
import { Page } from "../parts/page";
import { Shown, Words } from "../parts/states";
import { attempt, say } from "../parts/toast";
import { may } from "../state";
import { Download, Results } from "./job/results";
import { isOpen, type Job, JobBadge, Progress } from "./jobs/state";
import "../style/jobs.css";
import "../style/trace.css";

export default function JobPage() {
  const id = useRoute().params.id ?? "";
  const loaded = useLoad(
    (signal) => ask(api.GET("/api/v1/jobs/{id}", { params: { path: { id } }, signal })),
    [id],
    ["job_changed"],
  );
  const job = loaded.data;
  return (
    <Page
      title={job?.name ?? t("jobs.job")}
      back={{ href: "/jobs", label: t("menu.jobs") }}
      isWide
      actions={job && <Actions job={job} onChange={loaded.replace} />}
    >
      <Shown of={loaded}>
        {(found) => (
          <>
            <Standing job={found} onChange={loaded.replace} />
            {found.kind === "batch" && <Results job={found} />}
            {found.result && (
              <section aria-labelledby="job-result">
                <h2 id="job-result">{t("jobs.result")}</h2>
                <Json value={found.result} />
              </section>
            )}
          </>
        )}
      </Shown>
    </Page>
  );
}

interface JobProps {
  job: Job;
  onChange: (job: Job) => void;
}

function Actions({ job, onChange }: JobProps) {
  const cancel = async () => {
    const done = await attempt(ask(api.POST("/api/v1/jobs/{id}/cancel", { params: { path: { id: job.id } } })));
    if (!done) return;
    onChange(done);
    say(t("jobs.cancelled"));
  };
  return (
    <>
      {job.kind === "batch" && job.done + job.failed > 0 && <Download job={job} />}
      {isOpen(job) && may("skills.run") && (
        <Button look="danger" onClick={cancel}>
          {t("jobs.cancel")}
        </Button>
      )}
    </>
  );
}

function Standing({ job, onChange }: JobProps) {
  const took = job.started_at && job.finished_at ? Date.parse(job.finished_at) - Date.parse(job.started_at) : undefined;
  const ended = job.done + job.failed;
  return (
    <div class="card job-standing">
      <p class="trace-said">
        <JobBadge state={job.state} />
        <Badge>{t(`jobs.kind_${job.kind}`)}</Badge>
        {job.skill && <a href={`/skills/${encodeURIComponent(job.skill)}`}>{job.skill}</a>}
        <span class="quiet">
          <time dateTime={job.created_at} title={moment(job.created_at)}>
            {ago(job.created_at)}
          </time>
          {took !== undefined && ` · ${t("jobs.took", { duration: duration(took) })}`}
          {job.attempt > 1 && ` · ${t("jobs.attempt", { count: job.attempt })}`}
          {isOpen(job) && job.workers > 0 && ` · ${t("jobs.workers", { count: job.workers })}`}
        </span>
      </p>
      {job.total > 0 && <Progress job={job} isLarge />}
      <p class="job-money">
        {job.cost_usd !== null && (
          <>
            <strong>{cost(job.cost_usd)}</strong>
            {ended > 1 && <span class="quiet"> {t("jobs.per_item", { cost: cost(job.cost_usd / ended) })}</span>}
          </>
        )}
        {job.state === "running" && job.started_at && ended > 0 && ended < job.total && (
          <span class="quiet"> {t("jobs.eta", { duration: duration(left(job.started_at, ended, job.total)) })}</span>
        )}
      </p>
      {isOpen(job) && job.workers === 0 && (
        <p class="jobs-note">
          <Words text={t("jobs.no_worker")} />
        </p>
      )}
      {job.approval_id && job.state === "waiting" && (
        <p>
          {t("jobs.approval_text")}{" "}
          <a class="button primary" href={`/approvals?id=${job.approval_id}`}>
            {t("jobs.approve")}
          </a>
        </p>
      )}
      {job.error && (
        <div class="problem">
          <p>
            <Words text={job.error.message} />
          </p>
          {job.error.hint && (
            <p class="quiet">
              <Words text={job.error.hint} />
            </p>
          )}
        </div>
      )}
      {!isOpen(job) && job.state !== "succeeded" && may("skills.run") && <Retry job={job} onChange={onChange} />}
    </div>
  );
}

/** Return about how long the rest takes, in milliseconds. */
function left(started: string, ended: number, total: number): number {
  return ((Date.now() - Date.parse(started)) / ended) * (total - ended);
}

function Retry({ job, onChange }: JobProps) {
  const [maxSpend, setMaxSpend] = useState("");
  const isSpent = job.state === "stopped" && job.kind === "batch";
  const retry = async () => {
    const body = isSpent && Number(maxSpend) > 0 ? { max_spend: Number(maxSpend) } : {};
    const path = { id: job.id };
    const done = await attempt(ask(api.POST("/api/v1/jobs/{id}/retry", { params: { path }, body })));
    if (!done) return;
    onChange(done);
    say(t("jobs.retried"));
  };
  return (
    <div class="job-retry">
      {isSpent && (
        <NumberField
          label={t("jobs.max_spend")}
          hint={t("jobs.max_spend_hint")}
          value={maxSpend}
          onInput={setMaxSpend}
        />
      )}
      <Button look="primary" onClick={retry}>
        {job.failed > 0 ? t("jobs.retry") : t("jobs.go_on")}
      </Button>
    </div>
  );
}
