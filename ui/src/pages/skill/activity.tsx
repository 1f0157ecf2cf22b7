// What a skill did: its runs, what they cost, and how it was evaluated.
import { api, ask, type Shapes } from "../../api/client";
import { useLoad } from "../../api/load";
import { ago, cost, count, duration, moment, percent } from "../../format";
import { t } from "../../i18n";
import { Badge } from "../../parts/badge";
import { Shown } from "../../parts/states";
import { StatusBadge } from "../traces/status";
import type { Skill } from "./data";

export function Activity({ skill }: { skill: Skill }) {
  const { slug } = skill;
  const stats = useLoad(
    (signal) => ask(api.GET("/api/v1/stats", { params: { query: { by: "skill", skill: slug } }, signal })),
    [slug],
    ["run_finished"],
  );
  const traces = useLoad(
    (signal) => ask(api.GET("/api/v1/traces", { params: { query: { skill: slug, limit: 20 } }, signal })),
    [slug],
    ["run_started", "run_finished"],
  );
  const evals = useLoad(
    (signal) => ask(api.GET("/api/v1/evals", { params: { query: { skill: slug, limit: 10 } }, signal })),
    [slug],
    ["job_changed"],
  );
  return (
    <>
      <Shown of={stats}>{({ total }) => (total.runs ? <Figures of={total} /> : null)}</Shown>
      <h2>{t("skill.runs")}</h2>
      <Shown of={traces}>{({ items, total }) => <Traces items={items} total={total} slug={slug} />}</Shown>
      <h2>{t("menu.evals")}</h2>
      <Shown of={evals}>{({ items }) => <Evals items={items} />}</Shown>
    </>
  );
}

function Figures({ of }: { of: Shapes["FiguresShape"] }) {
  const figures: [string, string][] = [
    [t("skill.figure_runs"), count(of.runs)],
    [t("skill.figure_failed"), of.failure_rate === null ? "–" : percent(of.failure_rate)],
    [t("skill.figure_asserted"), of.assertion_rate === null ? "–" : percent(of.assertion_rate)],
    [t("skill.figure_median"), of.p50_ms === null ? "–" : duration(of.p50_ms)],
    [t("skill.figure_tokens"), count(of.input_tokens + of.output_tokens)],
    [t("skill.figure_cost"), of.cost === null ? "–" : cost(of.cost)],
  ];
  return (
    <dl class="skill-figures">
      {figures.map(([label, value]) => (
        <div key={label}>
          <dt>{label}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function Traces({ items, total, slug }: { items: Shapes["TraceShape"][]; total: number; slug: string }) {
  if (!items.length) return <p class="quiet">{t("skill.no_runs")}</p>;
  return (
    <>
      <div class="scroll">
        <table class="stacked">
          <thead>
            <tr>
              <th>{t("skill.started")}</th>
              <th>{t("run.artifact")}</th>
              <th>{t("skill.state")}</th>
              <th>{t("run.model")}</th>
              <th class="number">{t("skill.took")}</th>
              <th class="number">{t("skill.figure_cost")}</th>
            </tr>
          </thead>
          <tbody>
            {items.map((one) => (
              <tr key={one.id}>
                <td title={moment(one.started_at)}>
                  <a href={`/traces/${encodeURIComponent(one.id)}`}>{ago(one.started_at)}</a>
                </td>
                <td>{one.artifact_name}</td>
                <td>
                  <StatusBadge status={one.status} />
                </td>
                <td>{one.model_id}</td>
                <td class="number">{one.duration_ms === null ? "" : duration(one.duration_ms)}</td>
                <td class="number" data-label={t("skill.figure_cost")}>
                  {one.estimated_cost === null ? "" : cost(one.estimated_cost)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {total > items.length && (
        <p>
          <a href={`/traces?skill=${encodeURIComponent(slug)}`}>{t("skill.all_runs", { count: total })}</a>
        </p>
      )}
    </>
  );
}

function Evals({ items }: { items: Shapes["EvalShape"][] }) {
  if (!items.length) return <p class="quiet">{t("skill.no_evals")}</p>;
  return (
    <div class="scroll">
      <table class="stacked">
        <thead>
          <tr>
            <th>{t("skill.started")}</th>
            <th>{t("skill.state")}</th>
            <th class="number">{t("skill.cases")}</th>
            <th class="number">{t("skill.passed")}</th>
            <th class="number">{t("skill.figure_cost")}</th>
          </tr>
        </thead>
        <tbody>
          {items.map((one) => (
            <tr key={one.id}>
              <td title={moment(one.created_at)}>
                <a href={`/evals/${encodeURIComponent(one.id)}`}>{ago(one.created_at)}</a>
              </td>
              <td>
                <Badge tone={one.ok ? "good" : one.state === "running" ? "accent" : "bad"}>{one.state}</Badge>
              </td>
              <td class="number" data-label={t("skill.cases")}>
                {count(one.done)} / {count(one.total)}
              </td>
              <td class="number" data-label={t("skill.passed")}>
                {one.done ? percent((one.done - one.failed - one.errors) / one.done) : ""}
              </td>
              <td class="number" data-label={t("skill.figure_cost")}>
                {one.cost_usd === null ? "" : cost(one.cost_usd)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
