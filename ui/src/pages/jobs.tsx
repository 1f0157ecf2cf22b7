// Jobs: what runs in the background, how far it is, and a form that starts a batch.
import { useState } from "preact/hooks";
import { lazy, useLocation } from "preact-iso";
import { api, ask } from "../api/client";
import { useLoad } from "../api/load";
import { ago, cost, moment } from "../format";
import { t } from "../i18n";
import { Badge } from "../parts/badge";
import { Button, Choice } from "../parts/controls";
import { Page } from "../parts/page";
import { Empty, Shown, Words } from "../parts/states";
import { may } from "../state";
import { isOpen, type Job, JobBadge, type JobState, Progress } from "./jobs/state";
import "../style/jobs.css";

const StartBatch = lazy(() => import("./jobs/start"));
const STATES: JobState[] = ["queued", "running", "waiting", "succeeded", "failed", "stopped", "cancelled"];
const PAGE = 50;
const MOST = 200;

export default function JobsPage() {
  const { query, route } = useLocation();
  const state = STATES.find((one) => one === query.state) ?? "";
  const [limit, setLimit] = useState(PAGE);
  const isStarting = query.start !== undefined;
  const jobs = useLoad(
    (signal) => ask(api.GET("/api/v1/jobs", { params: { query: { limit, ...(state && { state }) } }, signal })),
    [state, limit],
    ["job_changed"],
  );
  const start = () => route("/jobs?start=");
  return (
    <Page
      title={t("menu.jobs")}
      lead={t("jobs.lead")}
      isWide
      actions={
        may("skills.run") && (
          <Button look="primary" onClick={start}>
            {t("jobs.start")}
          </Button>
        )
      }
    >
      <div class="toolbar">
        <Choice<JobState | "">
          label={t("jobs.filter")}
          value={state}
          options={[
            { value: "", label: t("jobs.all") },
            ...STATES.map((value) => ({ value, label: t(`jobs.state_${value}`) })),
          ]}
          onChange={(chosen) => route(chosen ? `/jobs?state=${chosen}` : "/jobs", true)}
        />
      </div>
      <Shown of={jobs}>
        {(found) =>
          found.items.length === 0 ? (
            <None isFiltered={state !== ""} onStart={start} />
          ) : (
            <>
              {found.items.some((job) => isOpen(job) && job.workers === 0) && (
                <p class="jobs-note">
                  <Words text={t("jobs.no_worker")} />
                </p>
              )}
              <JobTable jobs={found.items} />
              {found.next_cursor && limit < MOST && (
                <p>
                  <Button onClick={() => setLimit(MOST)}>{t("jobs.more")}</Button>
                </p>
              )}
            </>
          )
        }
      </Shown>
      {isStarting && <StartBatch skill={query.skill ?? ""} onClose={() => route("/jobs", true)} />}
    </Page>
  );
}

function JobTable({ jobs }: { jobs: Job[] }) {
  return (
    <table class="jobs-table">
      <thead>
        <tr>
          <th>{t("jobs.job")}</th>
          <th>{t("jobs.state")}</th>
          <th>{t("jobs.progress")}</th>
          <th class="number">{t("jobs.cost")}</th>
          <th>{t("jobs.created")}</th>
        </tr>
      </thead>
      <tbody>
        {jobs.map((job) => (
          <tr key={job.id}>
            <td class="jobs-name">
              <a href={`/jobs/${job.id}`}>{job.name}</a> <Badge>{t(`jobs.kind_${job.kind}`)}</Badge>
              {job.skill && <p class="quiet">{job.skill}</p>}
              {job.error && (
                <p class="jobs-error">
                  <Words text={job.error.message} />
                </p>
              )}
            </td>
            <td>
              <JobBadge state={job.state} />
            </td>
            <td class="jobs-share">
              <Progress job={job} />
            </td>
            <td class="number">{job.cost_usd === null ? "" : cost(job.cost_usd)}</td>
            <td class="quiet">
              <time dateTime={job.created_at} title={moment(job.created_at)}>
                {ago(job.created_at)}
              </time>
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function None({ isFiltered, onStart }: { isFiltered: boolean; onStart: () => void }) {
  if (isFiltered) return <Empty title={t("jobs.none_found")} />;
  return (
    <Empty title={t("jobs.none_title")}>
      <p>
        <Words text={t("jobs.none_text")} />
      </p>
      {may("skills.run") && <Button onClick={onStart}>{t("jobs.start")}</Button>}
    </Empty>
  );
}
