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
import { eachDay } from "./days";
import { addressOf, asQuery, type Filter } from "./filter";
import { AGENT } from "./status";

type Figures = Shapes["FiguresShape"];
type By = "skill" | "model";

interface Metric {
  name: "cost" | "latency" | "failures" | "assertions";
  value: (row: Figures) => number | null;
  format: (value: number) => string;
  total: (row: Figures) => string;
  about: (row: Figures) => string;
  /** What to say if no run has a value. */
  none: () => string;
  isBad?: boolean;
  /** True if the value of a day without runs is 0, because it is a sum. */
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
    none: () => t("traces.no_price"),
    isSum: true,
  },
  {
    name: "latency",
    value: (row) => row.p95_ms,
    format: duration,
    total: (row) => (row.p95_ms === null ? "–" : duration(row.p95_ms)),
    about: (row) => t("traces.chart_latency_about", { p50: duration(row.p50_ms ?? 0), p95: duration(row.p95_ms ?? 0) }),
    none: () => t("traces.nothing"),
  },
  {
    name: "failures",
    value: (row) => row.failures,
    format: (value) => count(Math.round(value * 100) / 100),
    total: (row) => (row.failure_rate === null ? "–" : percent(row.failure_rate)),
    about: (row) => t("traces.chart_failures_about", { failures: row.failures, runs: row.runs }),
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
    none: () => t("traces.no_assertions"),
    isBad: true,
    isSum: true,
  },
];
const MOST_BARS = 8;

export default function FiguresPanel({ filter, by }: { filter: Filter; by: By; onChange: unknown }) {
  const { route } = useLocation();
  const { skill, days } = asQuery(filter);
  const query = { ...(skill && { skill }), ...(days !== undefined && { days }) };
  const groups = useLoad(
    (signal) => ask(api.GET("/api/v1/stats", { params: { query: { by, ...query } }, signal })),
    [by, query],
    ["run_finished"],
  );
  const daily = useLoad(
    (signal) => ask(api.GET("/api/v1/stats", { params: { query: { by: "day", ...query } }, signal })),
    [query],
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
                daily={daily.data?.rows ?? []}
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
  daily: Figures[];
}

function Figure({ metric, by, filter, total, rows, daily }: FigureProps) {
  const label = t(`traces.chart_${metric.name}`);
  const isThere = metric.value(total) !== null;
  const ranked = rows
    .map((row) => ({ row, value: metric.value(row) }))
    .filter((one): one is { row: Figures; value: number } => Boolean(one.value))
    .sort((one, other) => other.value - one.value);
  const names = ranked.slice(0, MOST_BARS).map(({ row, value }) => ({
    name: row.name,
    label: row.name ? (
      <a href={addressOf({ ...filter, [by]: row.name }, "")}>{row.name === AGENT ? t("traces.agent") : row.name}</a>
    ) : (
      t("traces.no_model")
    ),
    value,
    shown: metric.format(value),
  }));
  const days = eachDay(daily, filter.days);
  return (
    <section class="card traces-figure">
      <header>
        <h2>{label}</h2>
        <span class="total">{metric.total(total)}</span>
      </header>
      <p>{isThere ? metric.about(total) : metric.none()}</p>
      {isThere && days.length > 1 && (
        <Chart
          label={t("traces.per_day", { what: label })}
          isQuiet
          isDaily
          height={150}
          look={metric.isSum ? "bars" : "lines"}
          {...(metric.isBad && { isBad: true })}
          times={days.map((one) => one.time)}
          series={chartSeries(metric, days)}
          format={metric.format}
        />
      )}
      {names.length > 0 && <Bars label={label} rows={names} {...(metric.isBad && { isBad: true })} />}
      {ranked.length > MOST_BARS && <p class="quiet">{t("traces.others", { count: ranked.length - MOST_BARS })}</p>}
    </section>
  );
}

function chartSeries(metric: Metric, days: { row: Figures | undefined }[]) {
  if (metric.name === "latency")
    return [
      { label: t("traces.p95"), values: days.map(({ row }) => row?.p95_ms ?? null) },
      { label: t("traces.p50"), values: days.map(({ row }) => row?.p50_ms ?? null) },
    ];
  return [
    {
      label: t(`traces.chart_${metric.name}`),
      values: days.map(({ row }) => (row ? metric.value(row) : null) ?? (metric.isSum ? 0 : null)),
    },
  ];
}
