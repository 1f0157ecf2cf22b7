// This run beside another one: the differences with their intervals, and the cases that changed.
import { useLocation } from "preact-iso";
import { api, ask, type Shapes } from "../../api/client";
import { useLoad } from "../../api/load";
import { cost, duration, moment, percent } from "../../format";
import { t } from "../../i18n";
import { Field } from "../../parts/controls";
import { Shown } from "../../parts/states";
import { asRun, type Interval, type Run } from "./run";
import { Difference, signed, Whisker } from "./verdict";

/** Choose another run of the same skill, and see which cases pass now and which do no longer. */
export function Compared({ run, other }: { run: Run; other: string }) {
  const { route } = useLocation();
  const runs = useLoad(
    (signal) => ask(api.GET("/api/v1/evals", { params: { query: { skill: run.skill, limit: 50 } }, signal })),
    [run.skill],
  );
  const second = useLoad(
    async (signal) =>
      other ? asRun(await ask(api.GET("/api/v1/evals/{id}", { params: { path: { id: other } }, signal }))) : undefined,
    [other],
  );
  const others = runs.data?.items.filter((one) => one.id !== run.id) ?? [];
  if (others.length === 0 && !other) return null;
  return (
    <section class="card evals-compare" aria-label={t("evals.compare")}>
      <Field label={t("evals.compare_with")}>
        {(ids) => (
          <select
            {...ids}
            value={other}
            onChange={(event) => {
              const chosen = event.currentTarget.value;
              route(chosen ? `/evals/${run.id}?with=${chosen}` : `/evals/${run.id}`, true);
            }}
          >
            <option value="">{t("evals.compare_none")}</option>
            {others.map((one) => (
              <option key={one.id} value={one.id}>
                {moment(one.created_at)}
              </option>
            ))}
          </select>
        )}
      </Field>
      {other && <Differences run={run.id} other={other} />}
      {second.data && <Changes before={second.data} after={run} />}
    </section>
  );
}

type Comparison = Shapes["ArmComparisonShape"];

/** What changed from the other run to this one, with the intervals that the cases of both allow. */
function Differences({ run, other }: { run: string; other: string }) {
  const found = useLoad(
    (signal) => ask(api.GET("/api/v1/evals/{id}/compare/{other}", { params: { path: { id: run, other } }, signal })),
    [run, other],
  );
  return (
    <Shown of={found}>
      {({ comparisons }) =>
        comparisons.map((one) => (
          <div key={`${one.before} ${one.after}`} class="evals-differences">
            <p class="evals-line">
              <Difference verdict={one.verdict} />
              {comparisons.length > 1 && <strong>{one.after}</strong>}
              <span class="quiet">
                {t("evals.compared", { count: one.cases })}
                {one.left_out > 0 && ` ${t("evals.left_out", { count: one.left_out })}`}
              </span>
            </p>
            <Figures one={one} />
          </div>
        ))
      }
    </Shown>
  );
}

function Figures({ one }: { one: Comparison }) {
  return (
    <dl class="evals-figures">
      <Figure name={t("evals.score")} interval={one.score} format={signed} isMoreBetter />
      <Figure name={t("evals.pass_rate")} interval={one.pass_rate} format={signed} isMoreBetter />
      <Figure name={t("evals.cost")} interval={one.cost_usd} format={plus(cost)} />
      <Figure name={t("evals.time")} interval={one.seconds} format={plus((value) => duration(value * 1000))} />
    </dl>
  );
}

/** Return a format of differences: the sign, then the size as the other format writes it. */
function plus(format: (value: number) => string) {
  return (value: number | null) =>
    value === null ? "–" : `${value > 0 ? "+" : value < 0 ? "−" : ""}${format(Math.abs(value))}`;
}

interface FigureProps {
  name: string;
  interval: Interval;
  format: (value: number | null) => string;
  isMoreBetter?: boolean;
}

function Figure({ name, interval, format, isMoreBetter = false }: FigureProps) {
  if (interval.mean === null) return null;
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        <strong>{format(interval.mean)}</strong>{" "}
        <span class="quiet">
          {interval.low === null || interval.high === null
            ? t("evals.no_interval")
            : t("evals.from_to", { low: format(interval.low), high: format(interval.high) })}
        </span>
        <Whisker interval={interval} isMoreBetter={isMoreBetter} />
      </dd>
    </div>
  );
}

/** Return the share of answers that passed with the skill, by case. */
function rates(run: Run): Map<string, { name: string; rate: number }> {
  const found = new Map<string, { name: string; passes: number; count: number }>();
  for (const result of run.results) {
    if (run.arms[result.arm]?.kind !== "skill" || result.passed === null) continue;
    const one = found.get(result.digest) ?? { name: result.title || result.case, passes: 0, count: 0 };
    one.passes += result.passed ? 1 : 0;
    one.count += 1;
    found.set(result.digest, one);
  }
  return new Map([...found].map(([digest, one]) => [digest, { name: one.name, rate: one.passes / one.count }]));
}

function Changes({ before, after }: { before: Run; after: Run }) {
  const old = rates(before);
  const both = [...rates(after)].filter(([digest]) => old.has(digest));
  const changed = both
    .map(([digest, one]) => ({ name: one.name, before: old.get(digest)?.rate ?? 0, after: one.rate }))
    .filter((one) => one.before !== one.after);
  return (
    <>
      {changed.length === 0 ? (
        <p class="quiet">{t("evals.same_cases")}</p>
      ) : (
        <table>
          <thead>
            <tr>
              <th>{t("evals.case")}</th>
              <th class="number">{t("evals.before")}</th>
              <th class="number">{t("evals.now")}</th>
            </tr>
          </thead>
          <tbody>
            {changed.map((one) => (
              <tr key={one.name}>
                <th scope="row">{one.name}</th>
                <td class="number">{percent(one.before)}</td>
                <td class={one.after > one.before ? "number evals-good" : "number evals-bad"}>{percent(one.after)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}
