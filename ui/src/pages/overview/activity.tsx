// What it is doing: jobs, turns of conversations and runs, as they happen.
import { api, ask } from "../../api/client";
import { useLoad } from "../../api/load";
import { ago, moment } from "../../format";
import { t } from "../../i18n";
import { Badge } from "../../parts/badge";
import { Shown } from "../../parts/states";
import { JobBadge, Progress } from "../jobs/state";
import { nameOf, StatusBadge, Took } from "../traces/status";
import { Area } from "./parts";

const SHOWN = 5;

async function readActivity(signal: AbortSignal) {
  const [jobs, waiting, running, last, talks] = await Promise.all([
    ask(api.GET("/api/v1/jobs", { params: { query: { state: "running", limit: SHOWN } }, signal })),
    ask(api.GET("/api/v1/jobs", { params: { query: { state: "queued", limit: SHOWN } }, signal })),
    ask(api.GET("/api/v1/traces", { params: { query: { status: "running", limit: SHOWN } }, signal })),
    ask(api.GET("/api/v1/traces", { params: { query: { limit: SHOWN } }, signal })),
    ask(api.GET("/api/v1/conversations", { params: { query: { limit: 20 } }, signal })),
  ]);
  return {
    jobs: [...jobs.items, ...waiting.items].slice(0, SHOWN),
    running: running.items,
    last: last.items.filter((one) => one.status !== "running"),
    talks: talks.items.filter((one) => one.state === "running" || one.state === "waiting").slice(0, SHOWN),
  };
}

export function ActivityArea() {
  const activity = useLoad(
    readActivity,
    [],
    ["run_started", "run_finished", "job_changed", "decision_made", "approval_required", "approval_resolved"],
  );
  return (
    <Area id="activity" title={t("overview.activity")} link={{ href: "/traces", label: t("overview.all_traces") }}>
      <Shown of={activity}>
        {({ jobs, running, last, talks }) => (
          <>
            <h3>{t("overview.running_now")}</h3>
            {jobs.length + running.length + talks.length === 0 && <p class="quiet">{t("overview.nothing_runs")}</p>}
            <ul class="overview-list">
              {talks.map((talk) => (
                <li key={talk.id}>
                  <a href={`/chat/${talk.id}`}>{talk.title || talk.name || t("overview.turn")}</a>
                  <Badge tone={talk.state === "waiting" ? "warn" : "accent"}>
                    {talk.state === "waiting" ? t("overview.turn_waiting") : t("overview.turn_running")}
                  </Badge>
                </li>
              ))}
              {jobs.map((job) => (
                <li key={job.id} class="overview-job">
                  <a href={`/jobs/${job.id}`}>{job.name}</a>
                  <JobBadge state={job.state} />
                  {job.total > 0 && <Progress job={job} />}
                </li>
              ))}
              {running.map((trace) => (
                <li key={trace.id}>
                  <a href={`/traces/${trace.id}`}>
                    {nameOf(trace)} <span class="quiet">{trace.artifact_name}</span>
                  </a>
                  <span class="quiet">
                    <Took trace={trace} />
                  </span>
                </li>
              ))}
            </ul>
            {last.length > 0 && (
              <>
                <h3>{t("overview.last_runs")}</h3>
                <ul class="overview-list">
                  {last.map((trace) => (
                    <li key={trace.id}>
                      <a href={`/traces/${trace.id}`}>
                        {nameOf(trace)} <span class="quiet">{trace.artifact_name}</span>
                      </a>
                      <span class="overview-end">
                        {trace.status !== "ok" && <StatusBadge status={trace.status} />}
                        <time class="quiet" dateTime={trace.started_at} title={moment(trace.started_at)}>
                          {ago(trace.started_at)}
                        </time>
                      </span>
                    </li>
                  ))}
                </ul>
              </>
            )}
          </>
        )}
      </Shown>
    </Area>
  );
}
