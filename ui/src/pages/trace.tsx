// One run: how it ended, what came out, what went in, what was checked, what it touched and what it cost.
import type { ComponentChildren } from "preact";
import { useRoute } from "preact-iso";
import { api, ask, type Shapes } from "../api/client";
import { useLoad } from "../api/load";
import { ago, cost, count, moment } from "../format";
import { type MessageKey, t } from "../i18n";
import { Badge } from "../parts/badge";
import { Button } from "../parts/controls";
import { Json } from "../parts/json";
import { Page } from "../parts/page";
import { Shown, Words } from "../parts/states";
import { attempt, say } from "../parts/toast";
import { may } from "../state";
import { Phases, Steps } from "./trace/steps";
import { TextView } from "./trace/text";
import { AGENT, nameOf, useTook } from "./traces/status";
import "../style/trace.css";

type Whole = Shapes["WholeTraceShape"];

/** What other parts of the page show already. */
const SHOWN_DETAILS = ["receipt", "timings_ms", "log", "truncated", "resumed", "result"];
const HINTS = ["failed", "refused", "unavailable", "timed_out", "interrupted"] as const;

export default function TracePage() {
  const id = useRoute().params.id ?? "";
  const loaded = useLoad(
    (signal) => ask(api.GET("/api/v1/traces/{id}", { params: { path: { id } }, signal })),
    [id],
    ["run_state_changed", "run_finished"],
  );
  const trace = loaded.data;
  return (
    <Page
      title={trace ? `${nameOf(trace)} · ${trace.artifact_name}` : t("trace.missing")}
      back={{ href: "/traces", label: t("menu.traces") }}
      isWide
      actions={trace && <Actions trace={trace} />}
    >
      <Shown of={loaded}>{(found) => <Story trace={found} />}</Shown>
    </Page>
  );
}

function Actions({ trace }: { trace: Whole }) {
  return (
    <>
      {trace.session_id && <PartOf session={trace.session_id} />}
      {trace.skill_slug !== AGENT && (
        <a class="button" href={`/skills/${encodeURIComponent(trace.skill_slug)}`}>
          {t("trace.skill")}
        </a>
      )}
    </>
  );
}

/** Link to what a run was a part of: an evaluation, an optimization or a conversation. */
function PartOf({ session }: { session: string }) {
  const [kind, id = ""] = session.split(":", 2) as [string, string?];
  const [href, label] =
    kind === "eval"
      ? [`/evals/${encodeURIComponent(id)}`, t("evals.one")]
      : kind === "optimize"
        ? [`/optimizations/${encodeURIComponent(id)}`, t("optimization.one")]
        : [`/chat/${encodeURIComponent(session)}`, t("trace.open_conversation")];
  return (
    <a class="button" href={href}>
      {label}
    </a>
  );
}

function Story({ trace }: { trace: Whole }) {
  const { detail } = trace;
  const rest = Object.fromEntries(Object.entries(detail).filter(([name]) => !SHOWN_DETAILS.includes(name)));
  const log = Array.isArray(detail.log) ? detail.log.join("\n") : "";
  return (
    <>
      <Ending trace={trace} />
      <div class="trace-columns">
        <div>
          <Steps trace={trace} />
          <Part id="output" title={t("trace.output")}>
            <Output trace={trace} />
          </Part>
          <Verdicts trace={trace} />
          <Part id="inputs" title={t("trace.inputs")}>
            {Object.keys(trace.inputs).length > 0 ? (
              <Json value={trace.inputs} />
            ) : (
              <p class="quiet">{t("trace.no_inputs")}</p>
            )}
          </Part>
          {trace.rendered_input && (
            <details class="trace-fold">
              <summary>
                {t("trace.prompt")}{" "}
                <span class="quiet">{t("trace.chars", { count: trace.rendered_input.length })}</span>
              </summary>
              <TextView text={trace.rendered_input} label={t("trace.prompt")} />
            </details>
          )}
          {log && (
            <details class="trace-fold">
              <summary>{t("trace.log")}</summary>
              <TextView text={log} label={t("trace.log")} />
            </details>
          )}
          {Object.keys(rest).length > 0 && (
            <details class="trace-fold">
              <summary>{t("trace.more")}</summary>
              <Json value={rest} />
            </details>
          )}
        </div>
        <aside aria-label={t("trace.facts")}>
          <Facts trace={trace} />
          <Phases timings={detail.timings_ms} />
          <Receipt receipt={detail.receipt} />
        </aside>
      </div>
    </>
  );
}

function Part({ id, title, children }: { id: string; title: string; children: ComponentChildren }) {
  return (
    <section aria-labelledby={`trace-${id}`}>
      <h2 id={`trace-${id}`}>{title}</h2>
      {children}
    </section>
  );
}

/** One line that says it all, and what to do if it went wrong. */
function Ending({ trace }: { trace: Whole }) {
  const took = useTook(trace);
  const hint = HINTS.find((one) => one === trace.status);
  const resume = async () => {
    const path = { id: trace.skill_slug };
    const done = await attempt(
      ask(
        api.POST("/api/v1/skills/{id}/run", {
          params: { path },
          body: { resume: trace.id, dry_run: false, model: "", evaluation_model: "" },
        }),
      ),
    );
    if (done) say(t("trace.resumed"));
  };
  const facts = [
    trace.model_id,
    trace.input_tokens !== null && t("trace.tokens_sum", { count: trace.input_tokens + (trace.output_tokens ?? 0) }),
    trace.estimated_cost !== null && cost(trace.estimated_cost),
  ].filter(Boolean);
  return (
    <div class={`trace-ending ${trace.status}`}>
      <p class="trace-said">
        <strong>{t(`trace.said_${trace.status}`, { duration: took })}</strong>
        <span class="quiet">{facts.join(" · ")}</span>
        {trace.assertions_run > 0 && (
          <Badge tone={trace.assertions_passed === trace.assertions_run ? "good" : "bad"}>
            {t("trace.passed_of", { passed: trace.assertions_passed, run: trace.assertions_run })}
          </Badge>
        )}
      </p>
      {trace.error && (
        <p class="trace-error">
          <Words text={trace.error} /> {trace.error_code && <code>{trace.error_code}</code>}
        </p>
      )}
      {trace.detail.truncated === true && <p>{t("trace.cut")}</p>}
      {hint && !trace.resumable && (
        <p class="quiet">
          <Words text={t(`trace.hint_${hint}`)} />
        </p>
      )}
      {trace.resumable && may("skills.run") && (
        <p>
          {t("trace.resumable")} <Button onClick={resume}>{t("trace.resume")}</Button>
        </p>
      )}
    </div>
  );
}

function Output({ trace }: { trace: Whole }) {
  if (trace.raw_output) return <TextView text={trace.raw_output} label={t("trace.output")} />;
  if (trace.detail.result !== undefined) return <Json value={trace.detail.result} />;
  if (trace.status === "running") return <p class="quiet">{t("trace.waiting")}</p>;
  return <p class="quiet">{trace.status === "ok" ? t("trace.no_output_kept") : t("trace.no_output")}</p>;
}

function Verdicts({ trace }: { trace: Whole }) {
  if (trace.verdicts.length === 0) return null;
  const verdicts = [...trace.verdicts].sort((one, other) => Number(one.passed) - Number(other.passed));
  return (
    <Part id="verdicts" title={t("trace.assertions")}>
      <ul class="trace-verdicts">
        {verdicts.map((verdict, number) => (
          <li key={number} class={verdict.passed ? "passed" : "failed"}>
            <Badge tone={verdict.passed ? "good" : verdict.severity === "warning" ? "warn" : "bad"}>
              {verdict.passed ? t("trace.passed") : t("trace.not_passed")}
            </Badge>
            <div>
              <p>
                {String(verdict.description || verdict.type)} <span class="quiet">{String(verdict.type)}</span>
              </p>
              {verdict.explanation && <p class="quiet">{String(verdict.explanation).slice(0, 2_000)}</p>}
            </div>
          </li>
        ))}
      </ul>
    </Part>
  );
}

function Facts({ trace }: { trace: Whole }) {
  const { result, resumed } = trace.detail as { result?: { attempts?: unknown }; resumed?: { trace?: unknown } };
  const attempts = typeof result?.attempts === "number" ? result.attempts : undefined;
  const rows: [string, ComponentChildren][] = [
    [t("trace.skill"), nameOf(trace)],
    [t("trace.artifact"), `${trace.artifact_name} (${trace.artifact_kind.replaceAll("_", " ")})`],
    [t("trace.model"), trace.model_id],
    [
      t("trace.tokens"),
      trace.input_tokens !== null &&
        t("trace.tokens_value", { input: trace.input_tokens, output: trace.output_tokens ?? 0 }),
    ],
    [
      t("trace.cost"),
      trace.estimated_cost !== null
        ? cost(trace.estimated_cost)
        : trace.model_id && <span class="quiet">{t("trace.no_price")}</span>,
    ],
    [t("trace.attempts"), attempts !== undefined && attempts > 1 && count(attempts)],
    [
      t("trace.started"),
      <time key="started" dateTime={trace.started_at} title={ago(trace.started_at)}>
        {moment(trace.started_at)}
      </time>,
    ],
    [t("trace.actor"), trace.actor],
    [
      t("trace.resumed_from"),
      typeof resumed?.trace === "string" && <a href={`/traces/${resumed.trace}`}>{resumed.trace.slice(0, 8)}</a>,
    ],
    [
      t("trace.version"),
      trace.skill_digest && <code title={trace.skill_digest}>{trace.skill_digest.slice(0, 12)}</code>,
    ],
    [t("trace.id"), <code key="id">{trace.id}</code>],
  ];
  return (
    <dl class="facts trace-facts">
      {rows.map(([name, value]) =>
        value ? (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ) : null,
      )}
    </dl>
  );
}

// What a run used outside itself, and what it was refused.
const KINDS = ["hosts", "env", "read", "written", "skills", "binaries", "packages", "pages", "models"];

interface Entry {
  kind: string;
  name: string;
  times: number;
  isRefused: boolean;
}

function Receipt({ receipt }: { receipt: unknown }) {
  if (typeof receipt !== "object" || receipt === null) return null;
  const { touched, refused, declared } = receipt as Record<string, unknown>;
  const entries = [...read(refused, true), ...read(touched, false)];
  const isDeclared = typeof declared === "object" && declared !== null && Object.keys(declared).length > 0;
  if (entries.length === 0 && !isDeclared) return null;
  return (
    <section aria-labelledby="trace-receipt">
      <h2 id="trace-receipt">{t("trace.receipt")}</h2>
      {entries.length > 0 && (
        <ul class="trace-receipt">
          {entries.map((entry) => (
            <li key={`${entry.isRefused} ${entry.kind} ${entry.name}`}>
              <Badge tone={entry.isRefused ? "bad" : "plain"}>
                {entry.isRefused ? t("trace.refused") : t("trace.touched")}
              </Badge>
              <span class="quiet">
                {KINDS.includes(entry.kind) ? t(`trace.kind_${entry.kind}` as MessageKey) : entry.kind}
              </span>
              <code>{entry.name}</code>
              {entry.times > 1 && <span class="quiet">{t("trace.times", { count: entry.times })}</span>}
            </li>
          ))}
        </ul>
      )}
      {isDeclared && (
        <details>
          <summary>{t("trace.declared")}</summary>
          <Json value={declared} />
        </details>
      )}
    </section>
  );
}

function read(part: unknown, isRefused: boolean): Entry[] {
  if (typeof part !== "object" || part === null) return [];
  return Object.entries(part).flatMap(([kind, names]) =>
    (Array.isArray(names) ? names : []).map((one: { name?: unknown; times?: unknown }) => ({
      kind,
      name: String(one.name ?? ""),
      times: Number(one.times ?? 1),
      isRefused,
    })),
  );
}
