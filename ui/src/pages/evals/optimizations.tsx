// The list of optimisations: what was tried, and what waits for a decision.

import { api, ask, type Shapes } from "../../api/client";
import { usePages } from "../../api/load";
import { ago, moment } from "../../format";
import { t } from "../../i18n";
import { Badge, type Tone } from "../../parts/badge";
import { Empty, More, Shown } from "../../parts/states";

export type Optimization = Shapes["OptimizationShape"];

const TONES: Record<Optimization["state"], Tone> = {
  running: "accent",
  refused: "plain",
  proposed: "warn",
  approved: "good",
  rejected: "plain",
  watching: "good",
  kept: "good",
  rolled_back: "bad",
};

export function State({ state }: { state: Optimization["state"] }) {
  return <Badge tone={TONES[state]}>{t(`optimization.state_${state}`)}</Badge>;
}

export function Optimizations() {
  const found = usePages(
    (query, signal) => ask(api.GET("/api/v1/optimizations", { params: { query }, signal })),
    [],
    ["optimization_changed", "job_changed"],
  );
  return (
    <Shown of={found}>
      {(page) =>
        page.items.length === 0 ? (
          <Empty title={t("optimization.none")}>
            <p>{t("optimization.none_hint")}</p>
          </Empty>
        ) : (
          <>
            <ul class="evals-list" aria-label={t("evals.tab_optimizations")}>
              {page.items.map((one) => (
                <li key={one.id} class="card">
                  <p class="evals-line">
                    <a class="evals-name" href={`/optimizations/${encodeURIComponent(one.id)}`}>
                      {one.skill}
                      {one.artifact && ` · ${one.artifact}`}
                    </a>
                    <State state={one.state} />
                    <span class="quiet">{methodName(one.method)}</span>
                    <span class="quiet" title={moment(one.created_at)}>
                      {ago(one.created_at)}
                    </span>
                  </p>
                  {one.reason && <p class="quiet">{one.reason}</p>}
                </li>
              ))}
            </ul>
            <More of={found} />
          </>
        )
      }
    </Shown>
  );
}

export const METHODS = [
  "rewrite",
  "description",
  "phrases",
  "bootstrap_few_shot",
  "mipro_v2",
  "simba",
  "gepa",
] as const;

export function methodName(method: string): string {
  const known = METHODS.find((one) => one === method);
  return known ? t(`optimization.method_${known}`) : method;
}
