// An evaluation as the server answers it. The OpenAPI document leaves its figures open.
import type { Shapes } from "../../api/client";
import { t } from "../../i18n";

export interface Interval {
  mean: number | null;
  low: number | null;
  high: number | null;
}

export interface Arm {
  kind: "skill" | "without" | "version";
  model: string;
  version: number | null;
  name: string;
  label: string;
}

export interface ArmFigures {
  label: string;
  cases: number;
  answers: number;
  passed: number;
  failed: number;
  errors: number;
  cached: number;
  pass_rate: Interval;
  score: Interval;
  total_cost_usd: number | null;
  seconds: Interval;
}

export interface Comparison {
  before: number;
  after: number;
  before_label: string;
  after_label: string;
  verdict: string;
  cases: number;
  score: Interval & { p: number };
  pass_rate: Interval & { p: number };
}

export interface CaseResult {
  case: string;
  title: string;
  digest: string;
  arm: number;
  repeat: number;
  passed: boolean | null;
  score: number | null;
  output: string;
  verdicts: { description?: string; passed?: boolean | null; evidence?: string; error?: string }[];
  error: string;
  cost: number | null;
  seconds: number;
  traces: string[];
  cached: boolean;
}

export type Run = Omit<Shapes["EvalShape"], "arms" | "summary" | "results"> & {
  id: string;
  skill: string;
  state: "running" | "done" | "stopped" | "interrupted";
  created_at: string;
  total: number;
  done: number;
  failed: number;
  errors: number;
  cost_usd: number | null;
  arms: Arm[];
  summary: { cases: number; repeats: number; arms: ArmFigures[]; comparisons: Comparison[] } | null;
  results: CaseResult[];
};

/** Return an answer of the server with the types of its figures. */
export function asRun(shape: Shapes["EvalShape"]): Run {
  return shape as unknown as Run;
}

/** Return what an arm is called, with its model only if the run has several. */
export function armName(run: Run, place: number): string {
  const arm = run.arms[place];
  if (!arm) return "";
  const name =
    arm.kind === "version" ? t("evals.arm_version", { version: arm.version ?? "" }) : t(`evals.arm_${arm.kind}`);
  const models = new Set(run.arms.map((one) => one.model));
  return models.size > 1 && arm.model ? `${name} · ${arm.model}` : name;
}

/** Return the position of the arm with the skill as it is, or the first one. */
export function ownArm(run: Run): number {
  return Math.max(
    0,
    run.arms.findIndex((arm) => arm.kind === "skill"),
  );
}
