// One optimisation: how far it is, what it measured on cases that the search never saw, the change, and the decision.

import { useEffect, useState } from "preact/hooks";
import { useRoute } from "preact-iso";
import { api, ask, type Problem } from "../api/client";
import { type Loaded, useLoad } from "../api/load";
import { ago, cost, count } from "../format";
import { language, t } from "../i18n";
import { Button, Field } from "../parts/controls";
import { Diff } from "../parts/diff";
import { Page } from "../parts/page";
import { asProblem, ProblemBox, Shown, Words } from "../parts/states";
import { say } from "../parts/toast";
import { may } from "../state";
import { methodName, type Optimization, State } from "./evals/optimizations";
import type { Interval } from "./evals/run";
import "../style/evals.css";

const POLL_MS = 4_000;

interface HeldOut {
  cases: number;
  repeats: number;
  base: number;
  candidate: number;
  difference: Interval;
  p: number;
  accepted: boolean;
  uses: number;
  verdict: string;
}

export default function OptimizationPage() {
  const id = useRoute().params.id ?? "";
  const found = useLoad(
    (signal) => ask(api.GET("/api/v1/optimizations/{id}", { params: { path: { id } }, signal })),
    [id],
    ["optimization_changed", "job_changed"],
  );
  const isRunning = found.data?.state === "running";
  // Events tell that the state changed, not how far a search is.
  useEffect(() => {
    if (!isRunning) return;
    const timer = window.setInterval(found.reload, POLL_MS);
    return () => window.clearInterval(timer);
  }, [isRunning]);
  const one = found.data;
  return (
    <Page
      title={one ? t("optimization.of", { skill: one.skill }) : t("optimization.one")}
      lead={
        one && (
          <>
            {methodName(one.method)} · <a href={`/skills/${encodeURIComponent(one.skill)}`}>{one.skill}</a>
            {one.artifact && ` · ${one.artifact}`} · {ago(one.created_at)}
          </>
        )
      }
      back={{ href: "/evals?tab=optimizations", label: t("evals.tab_optimizations") }}
      actions={one && <State state={one.state} />}
      isWide
    >
      <Shown of={found}>{(shown) => <Body one={shown} loaded={found} />}</Shown>
    </Page>
  );
}

function Body({ one, loaded }: { one: Optimization; loaded: Loaded<Optimization> }) {
  const test = one.test as HeldOut | null;
  return (
    <>
      {one.reason && !test && (
        <p class="evals-reason">
          <Words text={one.reason} />
        </p>
      )}
      <dl class="facts evals-facts">
        <dt>{t("optimization.calls_made")}</dt>
        <dd>{count(one.calls)}</dd>
        {one.cost_usd !== null && (
          <>
            <dt>{t("evals.cost")}</dt>
            <dd>{cost(one.cost_usd)}</dd>
          </>
        )}
        {one.score !== null && (
          <>
            <dt>{t("optimization.best")}</dt>
            <dd>{number(one.score)}</dd>
          </>
        )}
        {one.version !== null && (
          <>
            <dt>{t("optimization.version")}</dt>
            <dd>{one.version}</dd>
          </>
        )}
        {one.approver && (
          <>
            <dt>{t("optimization.approved_by")}</dt>
            <dd>{one.approver}</dd>
          </>
        )}
      </dl>
      {one.state === "running" && (
        <p role="status" class="evals-working">
          {t("optimization.working")}
        </p>
      )}
      {test && <Evidence test={test} />}
      {one.live && <Live live={one.live} />}
      {one.candidate_digest && one.state === "proposed" && <Candidate id={one.id} />}
      <Decision one={one} loaded={loaded} />
    </>
  );
}

function number(value: number | null): string {
  return value === null ? "–" : value.toLocaleString(language, { minimumFractionDigits: 2, maximumFractionDigits: 3 });
}

function Evidence({ test }: { test: HeldOut }) {
  const { difference } = test;
  const sign = (value: number | null) => (value !== null && value > 0 ? `+${number(value)}` : number(value));
  return (
    <section class="card" aria-label={t("optimization.evidence")}>
      <h2>{t("optimization.evidence")}</h2>
      <div class="evals-figures">
        <p>
          <span class="evals-rate">{number(test.base)}</span> <span class="quiet">{t("optimization.base")}</span>
        </p>
        <p>
          <span class="evals-rate">{number(test.candidate)}</span>{" "}
          <span class="quiet">{t("optimization.candidate")}</span>
        </p>
        <p>
          <span class={test.accepted ? "evals-rate evals-good" : "evals-rate"}>{sign(difference.mean)}</span>{" "}
          <span class="quiet">
            {t("optimization.difference", { low: sign(difference.low), high: sign(difference.high) })}
          </span>
        </p>
      </div>
      <p class="quiet">
        {t("optimization.held_out", { count: test.cases })}{" "}
        {t("optimization.chance", { p: test.p < 0.001 ? "< 0.001" : number(test.p) })}
      </p>
      {test.uses > 1 && <p class="evals-warn">{t("optimization.uses", { count: test.uses })}</p>}
    </section>
  );
}

function Live({ live }: { live: Record<string, unknown> }) {
  const plain = Object.entries(live).filter(([, value]) => typeof value === "number" || typeof value === "string");
  return (
    <section class="card" aria-label={t("optimization.live")}>
      <h2>{t("optimization.live")}</h2>
      <dl class="facts">
        {plain.map(([name, value]) => (
          <>
            <dt>{name.replaceAll("_", " ")}</dt>
            <dd>{typeof value === "number" ? number(value) : String(value)}</dd>
          </>
        ))}
      </dl>
    </section>
  );
}

/** Return the pairs of texts that a candidate changes, by name, however deep they lie. */
function pairs(parts: Record<string, unknown>, prefix = ""): { name: string; before: string; after: string }[] {
  return Object.entries(parts).flatMap(([name, part]) => {
    if (typeof part !== "object" || part === null) return [];
    const label = prefix ? `${prefix} · ${name}` : name;
    const held = part as Record<string, unknown>;
    if ("before" in held && "after" in held)
      return [{ name: label, before: text(held.before), after: text(held.after) }];
    return pairs(held, label);
  });
}

function text(value: unknown): string {
  if (typeof value === "string") return value;
  if (Array.isArray(value) && value.every((one) => typeof one === "string")) return value.join("\n");
  return JSON.stringify(value, null, 2) ?? "";
}

function Candidate({ id }: { id: string }) {
  const diff = useLoad(
    (signal) => ask(api.GET("/api/v1/optimizations/{id}/diff", { params: { path: { id } }, signal })),
    [id],
  );
  return (
    <section aria-label={t("optimization.change")}>
      <h2>{t("optimization.change")}</h2>
      <Shown of={diff}>
        {(found) => (
          <>
            {pairs(found.parts).map((pair) => (
              <div key={pair.name} class="evals-change">
                <h3>{pair.name.replaceAll("_", " ")}</h3>
                <Diff
                  before={pair.before}
                  after={pair.after}
                  labels={[t("optimization.base"), t("optimization.candidate")]}
                />
              </div>
            ))}
            <details>
              <summary>{t("optimization.files")}</summary>
              <pre tabIndex={0}>{found.files}</pre>
            </details>
          </>
        )}
      </Shown>
    </section>
  );
}

function Decision({ one, loaded }: { one: Optimization; loaded: Loaded<Optimization> }) {
  const [note, setNote] = useState("");
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  const path = { id: one.id };
  const act = async (work: Promise<Optimization>, done: string) => {
    setProblem(undefined);
    try {
      loaded.replace(await work);
      say(done);
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  const approve = () =>
    act(
      ask(
        api.POST("/api/v1/optimizations/{id}/approve", {
          params: { path },
          body: { digest: one.candidate_digest, note },
        }),
      ),
      t("optimization.approved"),
    );
  const reject = () =>
    act(
      ask(api.POST("/api/v1/optimizations/{id}/reject", { params: { path }, body: { note } })),
      t("optimization.rejected"),
    );
  const cancel = () =>
    act(ask(api.POST("/api/v1/optimizations/{id}/cancel", { params: { path } })), t("optimization.cancelled"));
  const back = async () => {
    setProblem(undefined);
    try {
      await ask(
        api.POST("/api/v1/skills/{id}/rollback", {
          params: { path: { id: `${one.scope}:${one.skill}` } },
          body: { version: (one.version ?? 2) - 1, note: `optimization ${one.id.slice(0, 8)}` },
        }),
      );
      say(t("optimization.rolled_back"));
      loaded.reload();
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  const mayWrite = may("skills.write");
  return (
    <div class="evals-decision">
      {problem && <ProblemBox problem={problem} />}
      {one.state === "running" && may("skills.run") && <Button onClick={cancel}>{t("optimization.cancel")}</Button>}
      {one.state === "proposed" && mayWrite && (
        <>
          <Field label={t("optimization.note")}>
            {(ids) => <input {...ids} value={note} onInput={(event) => setNote(event.currentTarget.value)} />}
          </Field>
          <div class="actions">
            <Button look="primary" onClick={approve}>
              {t("optimization.approve")}
            </Button>
            <Button look="danger" onClick={reject}>
              {t("optimization.reject")}
            </Button>
          </div>
        </>
      )}
      {(one.state === "watching" || one.state === "kept") && (one.version ?? 0) > 1 && mayWrite && (
        <Button look="danger" onClick={back}>
          {t("optimization.roll_back", { version: (one.version ?? 2) - 1 })}
        </Button>
      )}
    </div>
  );
}
