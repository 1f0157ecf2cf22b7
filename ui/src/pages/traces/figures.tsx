// Charts: what runs cost, how long they take, how many fail and what they fail, by skill or by model.
import { useLocation } from "preact-iso";
import { api, ask, type Shapes } from "../../api/client";
import { useLoad } from "../../api/load";
import { cost, count, duration, percent } from "../../format";
import { t } from "../../i18n";
import { Bars } from "../../parts/bars";
import { Chart } from "../../parts/chart";
import { Choice } from "../../parts/controls";
import { Shown } from "../../parts/states";
import { addressOf, asQuery, type Filter } from "./filter";
import { AGENT } from "./status";

type Figures = Shapes["FiguresShape"];
type Charted = Shapes["ChartShape"];
type Lines = Charted["series"][number];
type By = "skill" | "model";

interface Metric {
  name: "cost" | "latency" | "failures" | "assertions";
  value: (row: Figures) => number | null;
  format: (value: number) => string;
  total: (row: Figures) => string;
  about: (row: Figures) => string;
  /** The values of a group over time. */
  values: (lines: Lines) => (number | null)[];
  /** What to say if no run has a value. */
  none: () => string;
  isBad?: boolean;
  /** True if the values of groups add up. */
  isSum?: boolean;
}

const failed = (row: Figures) => row.assertions_run - row.assertions_passed;

const METRICS: Metric[] = [
  {
    name: "cost",
    value: (row) => row.cost,
    format: cost,
    total: (row) => (row.cost === null ? "–" : cost(row.cost)),
    about: (row) => t("traces.chart_cost_about", { tokens: row.input_tokens + row.output_tokens, runs: row.runs }),
    values: (lines) => lines.cost,
    none: () => t("traces.no_price"),
    isSum: true,
  },
  {
    name: "latency",
    value: (row) => row.p95_ms,
    format: duration,
    total: (row) => (row.p95_ms === null ? "–" : duration(row.p95_ms)),
    about: (row) => t("traces.chart_latency_about", { p50: duration(row.p50_ms ?? 0), p95: duration(row.p95_ms ?? 0) }),
    values: (lines) => lines.p95_ms,
    none: () => t("traces.nothing"),
  },
  {
    name: "failures",
    value: (row) => row.failures,
    format: (value) => count(Math.round(value * 100) / 100),
    total: (row) => (row.failure_rate === null ? "–" : percent(row.failure_rate)),
    about: (row) => t("traces.chart_failures_about", { failures: row.failures, runs: row.runs }),
    values: (lines) => lines.failures,
    none: () => t("traces.nothing"),
    isBad: true,
    isSum: true,
  },
  {
    name: "assertions",
    value: (row) => (row.assertions_run ? failed(row) : null),
    format: (value) => count(Math.round(value * 100) / 100),
    total: (row) => (row.assertions_run ? count(failed(row)) : "–"),
    about: (row) => t("traces.chart_assertions_about", { failed: failed(row), run: row.assertions_run }),
    values: (lines) => lines.assertions_failed,
    none: () => t("traces.no_assertions"),
    isBad: true,
    isSum: true,
  },
];
const MOST_BARS = 8;
/** How many groups have a color of their own. The rest is one more. */
const MOST_LINES = 5;

export default function FiguresPanel({ filter, by }: { filter: Filter; by: By }) {
  const { route } = useLocation();
  const { skill, days } = asQuery(filter);
  const query = { ...(skill && { skill }), ...(days !== undefined && { days }) };
  const groups = useLoad(
    (signal) => ask(api.GET("/api/v1/stats", { params: { query: { by, ...query } }, signal })),
    [by, query],
    ["run_finished"],
  );
  const bucket = filter.days === "1" ? ("hour" as const) : ("day" as const);
  const chart = useLoad(
    (signal) =>
      ask(api.GET("/api/v1/stats/series", { params: { query: { by, bucket, top: MOST_LINES, ...query } }, signal })),
    [by, bucket, query],
    ["run_finished"],
  );
  const address = addressOf(filter, "charts");
  return (
    <>
      <Choice<By>
        label={t("traces.by")}
        value={by}
        options={[
          { value: "skill", label: t("traces.by_skill") },
          { value: "model", label: t("traces.by_model") },
        ]}
        onChange={(chosen) => route(`${address}${chosen === "model" ? "&by=model" : ""}`, true)}
      />
      <Shown of={groups}>
        {(found) => (
          <div class="traces-figures">
            {METRICS.map((metric) => (
              <Figure
                key={metric.name}
                metric={metric}
                by={by}
                filter={filter}
                total={found.total}
                rows={found.rows}
                chart={chart.data}
              />
            ))}
          </div>
        )}
      </Shown>
    </>
  );
}

interface FigureProps {
  metric: Metric;
  by: By;
  filter: Filter;
  total: Figures;
  rows: Figures[];
  chart: Charted | undefined;
}

function Figure({ metric, by, filter, total, rows, chart }: FigureProps) {
  const label = t(`traces.chart_${metric.name}`);
  const isThere = metric.value(total) !== null;
  const ranked = rows
    .map((row) => ({ row, value: metric.value(row) }))
    .filter((one): one is { row: Figures; value: number } => Boolean(one.value))
    .sort((one, other) => other.value - one.value);
  const names = ranked.slice(0, MOST_BARS).map(({ row, value }) => ({
    name: row.name,
    label: row.name ? <a href={addressOf({ ...filter, [by]: row.name }, "")}>{groupName(row.name)}</a> : groupName(""),
    value,
    shown: metric.format(value),
  }));
  // A group has the same color in all charts, also where others have nothing to show.
  const lines = (chart?.series ?? [])
    .map((one, color) => ({ label: groupName(one.name), values: metric.values(one), color }))
    .filter((one) => one.values.some(Boolean));
  return (
    <section class="card traces-figure">
      <header>
        <h2>{label}</h2>
        <span class="total">{metric.total(total)}</span>
      </header>
      <p>{isThere ? metric.about(total) : metric.none()}</p>
      {isThere && chart && lines.length > 0 && chart.buckets.length > 1 && (
        <Chart
          label={t(chart.bucket === "hour" ? "traces.per_hour" : "traces.per_day", { what: label })}
          isQuiet
          isDaily={chart.bucket === "day"}
          height={150}
          look={metric.isSum ? "bars" : "lines"}
          times={chart.buckets.map((name) => Date.parse(chart.bucket === "hour" ? `${name}:00Z` : name))}
          series={lines}
          format={metric.format}
        />
      )}
      {names.length > 0 && <Bars label={label} rows={names} {...(metric.isBad && { isBad: true })} />}
      {ranked.length > MOST_BARS && <p class="quiet">{t("traces.others", { count: ranked.length - MOST_BARS })}</p>}
    </section>
  );
}

function groupName(name: string): string {
  if (name === AGENT) return t("traces.agent");
  return name === "others" ? t("traces.rest") : name || t("traces.no_model");
}
