// One evaluation: how each side did, every case with its outputs, and the difference to another run.

import { useState } from "preact/hooks";
import { useRoute } from "preact-iso";
import { api, ask } from "../api/client";
import { useLoad } from "../api/load";
import { ago, cost, duration, moment, percent } from "../format";
import { t } from "../i18n";
import { Choice } from "../parts/controls";
import { Page } from "../parts/page";
import { Shown } from "../parts/states";
import { Cases } from "./evals/cases";
import { Compared } from "./evals/compared";
import { armName, asRun, type Run } from "./evals/run";
import { Band, Difference, range, signed, Verdict } from "./evals/verdict";
import "../style/evals.css";

export default function EvalPage() {
  const { params, query } = useRoute();
  const id = params.id ?? "";
  const run = useLoad(
    async (signal) => asRun(await ask(api.GET("/api/v1/evals/{id}", { params: { path: { id } }, signal }))),
    [id],
    ["job_changed"],
  );
  return (
    <Page
      title={run.data ? t("evals.of", { skill: run.data.skill }) : t("evals.one")}
      lead={run.data && <When run={run.data} />}
      back={{ href: "/evals", label: t("menu.evals") }}
      actions={run.data && <Verdict run={run.data} />}
    >
      <Shown of={run}>{(found) => <Body run={found} other={query.with ?? ""} />}</Shown>
    </Page>
  );
}

function When({ run }: { run: Run }) {
  return (
    <>
      <span title={moment(run.created_at)}>{ago(run.created_at)}</span> ·{" "}
      <a href={`/skills/${encodeURIComponent(run.skill)}`}>{run.skill}</a>
      {run.cost_usd !== null && ` · ${cost(run.cost_usd)}`}
    </>
  );
}

type Filter = "all" | "failed";

function Body({ run, other }: { run: Run; other: string }) {
  const [shown, setShown] = useState<Filter>("all");
  return (
    <>
      {run.state === "running" && (
        <p role="status">
          <progress value={run.done} max={Math.max(1, run.total)} aria-label={t("evals.progress")} />{" "}
          {t("evals.running", { done: run.done, total: run.total })}
        </p>
      )}
      {run.summary && <Arms run={run} />}
      {run.summary?.comparisons.map((one) => (
        <p key={`${one.before}-${one.after}`} class="evals-comparison">
          <Difference verdict={one.verdict} />{" "}
          {t("evals.comparison", {
            after: armName(run, one.after),
            before: armName(run, one.before),
            difference: signed(one.pass_rate.mean),
            low: signed(one.pass_rate.low),
            high: signed(one.pass_rate.high),
            count: one.cases,
          })}
        </p>
      ))}
      <Compared run={run} other={other} />
      <div class="evals-cases-head">
        <h2>{t("evals.cases")}</h2>
        <Choice
          label={t("evals.show")}
          value={shown}
          options={[
            { value: "all", label: t("evals.all") },
            { value: "failed", label: t("evals.only_failed") },
          ]}
          onChange={setShown}
        />
      </div>
      <Cases run={run} isFailedOnly={shown === "failed"} />
    </>
  );
}

function Arms({ run }: { run: Run }) {
  return (
    <div class="grid evals-arms">
      {run.summary?.arms.map((arm, place) => (
        <section class="card" key={arm.label}>
          <h2>{armName(run, place)}</h2>
          <p class="evals-rate">{percent(arm.pass_rate.mean ?? 0)}</p>
          <Band interval={arm.pass_rate} />
          <p class="quiet">{t("evals.passed_of", { passed: arm.passed, count: arm.answers })}</p>
          <dl class="facts">
            <dt>{t("evals.interval")}</dt>
            <dd>{range(arm.pass_rate)}</dd>
            <dt>{t("evals.score")}</dt>
            <dd>{range(arm.score)}</dd>
            {arm.errors > 0 && (
              <>
                <dt>{t("evals.errors_label")}</dt>
                <dd>{arm.errors}</dd>
              </>
            )}
            {arm.seconds.mean !== null && (
              <>
                <dt>{t("evals.time")}</dt>
                <dd>{duration(arm.seconds.mean * 1000)}</dd>
              </>
            )}
            {arm.total_cost_usd !== null && (
              <>
                <dt>{t("evals.cost")}</dt>
                <dd>{cost(arm.total_cost_usd)}</dd>
              </>
            )}
          </dl>
        </section>
      ))}
    </div>
  );
}
