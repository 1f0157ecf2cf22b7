// What it costs: the last days as a chart, the skills that cost most, and what is left of today's limit.
import { useState } from "preact/hooks";
import { lazy } from "preact-iso";
import { api, ask, type Shapes } from "../../api/client";
import { useLoad } from "../../api/load";
import { cost, count } from "../../format";
import { t } from "../../i18n";
import { Bars } from "../../parts/bars";
import { Choice } from "../../parts/controls";
import { Shown } from "../../parts/states";
import { AGENT } from "../traces/status";
import { Area } from "./parts";

const Chart = lazy(() => import("../../parts/chart").then((module) => module.Chart));

const TOP = 5;
type Days = "7" | "30";

async function readCost(days: Days, signal: AbortSignal) {
  const query = { days: Number(days) };
  const [daily, skills] = await Promise.all([
    ask(api.GET("/api/v1/stats", { params: { query: { by: "day", ...query } }, signal })),
    ask(api.GET("/api/v1/stats", { params: { query: { by: "skill", ...query } }, signal })),
  ]);
  return { daily, skills };
}

export function CostArea() {
  const [days, setDays] = useState<Days>("7");
  const loaded = useLoad((signal) => readCost(days, signal), [days], ["run_finished"]);
  const settings = useLoad((signal) => ask(api.GET("/api/v1/settings", { signal })), []);
  const limit = settings.data?.spend_per_day_usd;
  const total = loaded.data?.daily.total;
  return (
    <Area
      id="cost"
      title={t("overview.cost")}
      figure={total ? (total.cost === null ? t("overview.runs", { count: total.runs }) : cost(total.cost)) : "…"}
      link={{ href: "/traces?view=charts", label: t("overview.charts") }}
    >
      <Choice<Days>
        label={t("overview.cost")}
        value={days}
        options={(["7", "30"] as const).map((value) => ({
          value,
          label: t("overview.last_days", { count: Number(value) }),
        }))}
        onChange={setDays}
      />
      <Shown of={loaded}>
        {({ daily, skills }) => {
          const all = eachDay(daily.rows, days);
          const isPriced = daily.total.cost !== null;
          const today = all.at(-1)?.row?.cost ?? 0;
          const top = skills.rows
            .map((row) => ({ row, value: isPriced ? (row.cost ?? 0) : row.runs }))
            .filter((one) => one.value > 0)
            .sort((one, other) => other.value - one.value)
            .slice(0, TOP);
          return (
            <>
              <p class="quiet overview-sum">
                {[
                  // Without prices, the figure above has the number of runs.
                  isPriced && t("overview.runs", { count: daily.total.runs }),
                  daily.total.failures > 0 && t("overview.failed", { count: daily.total.failures }),
                  isPriced && `${t("overview.today")} ${cost(today)}`,
                ]
                  .filter(Boolean)
                  .join(" · ")}
                {isPriced && typeof limit === "number" && ` ${t("overview.today_limit", { limit: cost(limit) })}`}
              </p>
              {daily.total.runs > 0 && (
                <Chart
                  label={isPriced ? t("overview.per_day") : t("overview.runs_per_day")}
                  isQuiet
                  isDaily
                  look="bars"
                  height={130}
                  times={all.map((one) => one.time)}
                  series={[
                    {
                      label: t("overview.cost"),
                      values: all.map(({ row }) => (isPriced ? row?.cost : row?.runs) ?? 0),
                    },
                  ]}
                  format={isPriced ? cost : count}
                />
              )}
              {!isPriced && <p class="quiet">{t("overview.no_price")}</p>}
              {top.length > 0 && (
                <>
                  <h3>{isPriced ? t("overview.top") : t("overview.top_runs")}</h3>
                  <Bars
                    label={isPriced ? t("overview.top") : t("overview.top_runs")}
                    rows={top.map(({ row, value }) => ({
                      name: row.name,
                      label: (
                        <a href={`/traces?skill=${encodeURIComponent(row.name)}`}>
                          {row.name === AGENT ? t("traces.agent") : row.name}
                        </a>
                      ),
                      value,
                      shown: isPriced ? cost(value) : count(value),
                    }))}
                  />
                </>
              )}
            </>
          );
        }}
      </Shown>
    </Area>
  );
}

type Figures = Shapes["FiguresShape"];
const DAY_MS = 86_400_000;
const MOST_DAYS = 366;

interface Day {
  /** The beginning of the day in UTC, in milliseconds. */
  time: number;
  row: Figures | undefined;
}

/** Return every day of the last `days` ("all": since the first with a run), with its figures if something ran. */
function eachDay(rows: Figures[], days: string): Day[] {
  const found = new Map(rows.map((row) => [Date.parse(row.name), row]));
  const today = Math.floor(Date.now() / DAY_MS) * DAY_MS;
  const known = Math.min(...found.keys(), today);
  const first = days === "all" ? Math.max(known, today - MOST_DAYS * DAY_MS) : today - (Number(days) - 1) * DAY_MS;
  const all: Day[] = [];
  for (let time = first; time <= today; time += DAY_MS) all.push({ time, row: found.get(time) });
  return all;
}
