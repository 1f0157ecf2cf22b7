// How a run ended, what it was, and how long it took.
import { useEffect, useState } from "preact/hooks";
import type { Shapes } from "../../api/client";
import { duration } from "../../format";
import { t } from "../../i18n";
import { Badge, type Tone } from "../../parts/badge";

export type Trace = Shapes["TraceShape"];
export type Status = Trace["status"];

export const STATUSES: Status[] = [
  "running",
  "ok",
  "failed",
  "refused",
  "unavailable",
  "timed_out",
  "cancelled",
  "interrupted",
];
const TONES: Partial<Record<Status, Tone>> = {
  ok: "good",
  running: "accent",
  cancelled: "plain",
  refused: "warn",
  interrupted: "warn",
};

/** The skill under which the requests of the agent itself are recorded. */
export const AGENT = "prowess.agent";

export function StatusBadge({ status }: { status: Status }) {
  return <Badge tone={TONES[status] ?? "bad"}>{t(`traces.status_${status}`)}</Badge>;
}

/** Return what ran, as people call it. */
export function nameOf(trace: Trace): string {
  return trace.skill_slug === AGENT ? t("traces.agent") : trace.skill_slug;
}

/** The duration of a run; it counts on while the run goes on. */
export function Took({ trace }: { trace: Trace }) {
  return <>{useTook(trace)}</>;
}

export function useTook(trace: Trace): string {
  const [now, setNow] = useState(Date.now());
  const isRunning = trace.status === "running";
  useEffect(() => {
    if (!isRunning) return;
    const timer = window.setInterval(() => setNow(Date.now()), 1000);
    return () => window.clearInterval(timer);
  }, [isRunning]);
  if (isRunning) return duration(Math.max(0, now - Date.parse(trace.started_at)));
  return trace.duration_ms === null ? "–" : duration(trace.duration_ms);
}
