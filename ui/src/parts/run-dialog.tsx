// Run a skill from a page: its inputs, a dry run, and the run itself with its output as it comes.
import { useEffect, useRef, useState } from "preact/hooks";
import { api, ask, type Problem, problemOf, type Shapes } from "../api/client";
import { useLoad } from "../api/load";
import { readEvents } from "../api/stream";
import { cost, count, duration } from "../format";
import { t } from "../i18n";
import { Badge, type Tone } from "./badge";
import { Button, Field } from "./controls";
import { Dialog, useInvalidFocus } from "./dialog";
import { Icon } from "./icons";
import { Inputs, inputFields, readInputs, type Typed } from "./inputs";
import { asProblem, Loading, ProblemBox } from "./states";
import "../style/run.css";

type Run = Shapes["RunShape"];
type Part = Shapes["RunPartShape"];
type Artifact = Shapes["ArtifactShape"];

interface Props {
  /** The id, the slug, or `scope:slug`. */
  skill: string;
  title: string;
  onClose: () => void;
}

interface Progress {
  isRunning: boolean;
  isDry: boolean;
  /** What the run does now. */
  state: string;
  /** The text of a model so far. */
  text: string;
  run?: Run;
  problem?: Problem;
}

const LONGEST_TEXT = 200_000;

/** A dialog that runs a stored skill. Closing it stops a run that has not ended. */
export function RunDialog({ skill, title, onClose }: Props) {
  const found = useLoad(
    (signal) => ask(api.GET("/api/v1/skills/{id}/artifacts", { params: { path: { id: skill } }, signal })),
    [skill],
  );
  const [typed, setTyped] = useState<Typed>({});
  const [problems, setProblems] = useState<Record<string, string>>({});
  const [artifact, setArtifact] = useState("");
  const [model, setModel] = useState("");
  const [progress, setProgress] = useState<Progress>();
  const abort = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => abort.current?.abort(), []);
  useInvalidFocus(problems);

  const running = (found.data?.artifacts ?? []).filter((one) => one.runs);
  const chosen = artifact ? running.filter((one) => one.name === artifact) : running;
  const fields = inputFields(schemaOf(found.data?.parameters, chosen), variablesOf(chosen));

  const start = async (isDry: boolean) => {
    const read = readInputs(fields, typed);
    setProblems(read.problems);
    if (Object.keys(read.problems).length) return;
    const control = new AbortController();
    abort.current = control;
    setProgress({ isRunning: true, isDry, state: "", text: "" });
    const update = (change: Partial<Progress>) => setProgress((last) => last && { ...last, ...change });
    try {
      await follow(
        skill,
        { inputs: read.inputs, artifacts: artifact ? [artifact] : [], model, dry_run: isDry },
        control.signal,
        {
          step: (state) => update({ state }),
          text: (piece) => setProgress((last) => last && { ...last, text: (last.text + piece).slice(-LONGEST_TEXT) }),
          end: (run, problem) => update({ run, problem }),
        },
      );
    } catch (error) {
      if (!control.signal.aborted) update({ problem: asProblem(error) });
      else update({ state: "stopped" });
    }
    update({ isRunning: false });
  };

  return (
    <Dialog
      title={t("run.title", { name: title })}
      isWide
      onClose={onClose}
      actions={
        progress?.isRunning ? (
          <Button look="danger" onClick={() => abort.current?.abort()}>
            <Icon name="stop" />
            {t("run.stop")}
          </Button>
        ) : (
          <>
            <Button onClick={() => start(true)} disabled={!running.length}>
              {t("run.dry")}
            </Button>
            <Button look="primary" onClick={() => start(false)} disabled={!running.length}>
              <Icon name="play" />
              {t("run.run")}
            </Button>
          </>
        )
      }
    >
      {found.problem && <ProblemBox problem={found.problem} onRetry={found.reload} />}
      {!found.data && !found.problem && <Loading lines={3} />}
      {found.data && !running.length && <p>{t("run.nothing")}</p>}
      {running.length > 0 && (
        <div class="run-columns">
          <div>
            {running.length > 1 && (
              <Field label={t("run.artifact")}>
                {(ids) => (
                  <select {...ids} value={artifact} onChange={(event) => setArtifact(event.currentTarget.value)}>
                    <option value="">{t("run.whole")}</option>
                    {[...new Set(running.map((one) => one.name))].map((name) => (
                      <option key={name} value={name}>
                        {name}
                      </option>
                    ))}
                  </select>
                )}
              </Field>
            )}
            <Inputs fields={fields} typed={typed} problems={problems} onChange={setTyped} />
            {!fields.length && <p class="quiet">{t("run.no_inputs")}</p>}
            <details>
              <summary>{t("run.more")}</summary>
              <Field label={t("run.model")} hint={t("run.model_hint")}>
                {(ids) => <input {...ids} value={model} onInput={(event) => setModel(event.currentTarget.value)} />}
              </Field>
            </details>
          </div>
          <section class="run-output" aria-label={t("run.output")}>
            {progress ? <Output progress={progress} /> : <p class="quiet">{t("run.before")}</p>}
          </section>
        </div>
      )}
    </Dialog>
  );
}

interface Listener {
  step: (state: string) => void;
  text: (piece: string) => void;
  end: (run: Run | undefined, problem?: Problem) => void;
}

async function follow(skill: string, body: Partial<Shapes["RunBody"]>, signal: AbortSignal, listener: Listener) {
  const stream = await ask(
    api.POST("/api/v1/skills/{id}/run", {
      params: { path: { id: skill } },
      body: body as Shapes["RunBody"],
      headers: { Accept: "text/event-stream" },
      parseAs: "stream",
      signal,
    }),
  );
  for await (const { name, data } of readEvents(stream)) {
    const told = data as Record<string, unknown>;
    if (name === "text") listener.text(String(told.text ?? ""));
    else if (name === "step") listener.step([told.artifact, told.state].filter(Boolean).join(": "));
    else if (name === "result") listener.end(told as unknown as Run);
    else if (name === "error") listener.end(told.run as Run | undefined, problemOf(Number(told.status), told));
  }
}

function Output({ progress }: { progress: Progress }) {
  const { run, problem } = progress;
  return (
    <>
      <p role="status" class="run-state">
        {progress.isRunning ? (
          <Badge tone="accent">{progress.state || t("run.starting")}</Badge>
        ) : problem?.code === "approval-required" ? (
          <Badge tone="accent">{t("run.needs_approval")}</Badge>
        ) : problem ? (
          <Badge tone="bad">{t("run.failed")}</Badge>
        ) : run ? (
          <Badge tone="good">{progress.isDry ? t("run.dry_done") : t("run.done")}</Badge>
        ) : (
          <Badge tone="warn">{t("run.stopped")}</Badge>
        )}
        {run && !progress.isDry && <Figures of={run} />}
      </p>
      {problem && <ProblemBox problem={problem} />}
      {problem?.code === "approval-required" && (
        <p>
          <a href="/approvals">{t("run.approvals")}</a>
        </p>
      )}
      {run
        ? run.parts.map((part) => <PartOutput key={part.trace} part={part} isOnly={run.parts.length === 1} />)
        : null}
      {!run && progress.text && <pre tabIndex={0}>{progress.text}</pre>}
      {run?.produced.map((file) => (
        <details key={file.name}>
          <summary>{t("run.produced", { name: file.name })}</summary>
          <pre tabIndex={0}>{file.content.slice(0, LONGEST_TEXT)}</pre>
        </details>
      ))}
    </>
  );
}

function Figures({ of }: { of: Pick<Run, "input_tokens" | "output_tokens" | "cost_usd"> & { duration_ms?: number } }) {
  const tokens = (of.input_tokens ?? 0) + (of.output_tokens ?? 0);
  const figures = [
    of.duration_ms === undefined ? "" : duration(of.duration_ms),
    tokens ? t("run.tokens", { count: tokens }) : "",
    of.cost_usd === null ? "" : cost(of.cost_usd),
  ];
  return <span class="quiet">{figures.filter(Boolean).join(" · ")}</span>;
}

const TONES: Record<string, Tone> = { ok: "good", running: "accent", cancelled: "warn", interrupted: "warn" };

function PartOutput({ part, isOnly }: { part: Part; isOnly: boolean }) {
  const told = part as Part & { would_do?: string; would_send?: Sent[]; printed?: string };
  const passed = part.verdicts.filter((one) => one.passed).length;
  return (
    <article class="run-part">
      {!isOnly && (
        <h3>
          {part.artifact} <Badge tone={TONES[part.status] ?? "bad"}>{part.status}</Badge> <Figures of={part} />
        </h3>
      )}
      {part.error && isOnly === false && <p class="run-error">{part.error.message}</p>}
      {part.output !== null && part.output !== undefined && <Shown value={part.output} />}
      {told.would_do && <Shown value={told.would_do} />}
      {told.would_send?.map((sent, number) => (
        <Request key={number} sent={sent} />
      ))}
      {told.printed && (
        <details>
          <summary>{t("run.printed")}</summary>
          <Shown value={told.printed} />
        </details>
      )}
      {part.verdicts.length > 0 && (
        <details open={passed < part.verdicts.length}>
          <summary>{t("run.verdicts", { passed: count(passed), count: part.verdicts.length })}</summary>
          <ul>
            {part.verdicts.map((verdict, number) => (
              <li key={number}>
                <Badge tone={verdict.passed ? "good" : "bad"}>
                  {verdict.passed ? t("run.passed") : t("run.not_passed")}
                </Badge>{" "}
                {verdict.description || verdict.type}
                {verdict.explanation && <span class="quiet"> {verdict.explanation}</span>}
              </li>
            ))}
          </ul>
        </details>
      )}
      {part.traced && (
        <p>
          <a href={`/traces/${encodeURIComponent(part.trace)}`}>{t("run.trace")}</a>
        </p>
      )}
    </article>
  );
}

interface Sent {
  model: string;
  messages: { role: string; content: string }[];
}

/** A request to a model, as a dry run shows it. */
function Request({ sent }: { sent: Sent }) {
  return (
    <>
      <p class="quiet">{t("run.would_send", { model: sent.model })}</p>
      {sent.messages.map((message, number) => (
        <div key={number}>
          <p class="run-role">{message.role}</p>
          <Shown value={message.content} />
        </div>
      ))}
    </>
  );
}

function Shown({ value }: { value: unknown }) {
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  return <pre tabIndex={0}>{text.slice(0, LONGEST_TEXT)}</pre>;
}

type Json = Record<string, unknown>;

/** Return one schema for the inputs: that of the skill, and those of its templates. */
function schemaOf(parameters: unknown, artifacts: Artifact[]): Json {
  const schemas = [parameters, ...artifacts.map((one) => (one as Artifact & { vars_schema?: unknown }).vars_schema)];
  const known = schemas.filter((one): one is Json => typeof one === "object" && one !== null);
  return {
    properties: Object.assign({}, ...known.map((one) => one.properties).reverse()),
    required: known.flatMap((one) => (Array.isArray(one.required) ? one.required : [])),
  };
}

function variablesOf(artifacts: Artifact[]): string[] {
  // What an artifact hands on to the next one is named after it.
  const names = new Set(["previous", ...artifacts.map((one) => one.name.replace(/-/g, "_"))]);
  return [...new Set(artifacts.flatMap((one) => one.variables))].filter((name) => !names.has(name));
}
