// What the draft would be and do: its problems, its prompt, what it is offered for, and what it may reach.
import { useState } from "preact/hooks";
import { api, ask, type Problem, type Shapes } from "../../api/client";
import { count, fit } from "../../format";
import { t } from "../../i18n";
import { Badge, type Tone } from "../../parts/badge";
import { Button, Field, Tabs } from "../../parts/controls";
import { ReachBadge } from "../../parts/reach-badge";
import { asProblem, Loading, ProblemBox, Words } from "../../parts/states";
import type { Edits } from "./draft";
import { type Fault, type Preview, type Previewed, useSettled } from "./preview";

type Panel = "problems" | "prompt" | "triggers" | "reach";

interface Props {
  edits: Edits;
  address: string;
  faults: Fault[];
  previewed: Previewed;
  onJump: (path: string, line: number, column: number) => void;
  /** Write the value that a problem suggests. */
  onFix: (fault: Fault) => void;
  canFix: (fault: Fault) => boolean;
}

export function SidePanel({ edits, address, faults, previewed, onJump, onFix, canFix }: Props) {
  const [panel, setPanel] = useState<Panel>("problems");
  const { preview, problem } = previewed;
  const findings = preview?.findings.length ?? 0;
  return (
    <section class="editor-side" aria-label={t("editor.side")}>
      <Tabs
        label={t("editor.side")}
        value={panel}
        onChange={setPanel}
        options={[
          { value: "problems", label: t("editor.tab_problems"), count: faults.length },
          { value: "prompt", label: t("editor.tab_prompt") },
          { value: "triggers", label: t("editor.tab_triggers") },
          { value: "reach", label: t("editor.tab_reach"), ...(findings ? { count: findings } : {}) },
        ]}
      >
        {problem && <ProblemBox problem={problem} />}
        {!preview && !problem && <Loading lines={3} />}
        {preview && panel === "problems" && <Problems faults={faults} onJump={onJump} onFix={onFix} canFix={canFix} />}
        {preview && panel === "prompt" && <PromptPreview preview={preview} />}
        {preview && panel === "triggers" && <TriggerTest edits={edits} address={address} />}
        {preview && panel === "reach" && <Reach preview={preview} onJump={onJump} />}
      </Tabs>
    </section>
  );
}

const TONES: Record<string, Tone> = { error: "bad", warning: "warn", info: "plain" };

function Problems({ faults, onJump, onFix, canFix }: Pick<Props, "faults" | "onJump" | "onFix" | "canFix">) {
  if (!faults.length) return <p class="quiet">{t("editor.no_problems")}</p>;
  return (
    <ul class="editor-list">
      {faults.map((fault, number) => (
        <li key={number}>
          <p class="editor-item-head">
            <Badge tone={TONES[fault.severity]}>{t(`editor.severity_${fault.severity}`)}</Badge>
            <button
              type="button"
              class="editor-place"
              onClick={() => onJump(fault.place.path, fault.place.line, fault.place.column)}
            >
              {t("editor.line", { path: fault.place.path, line: fault.place.line })}
            </button>
          </p>
          <p>
            <Words text={fault.message} />
          </p>
          {fault.hint && (
            <p class="quiet">
              <Words text={fault.hint} />
            </p>
          )}
          {canFix(fault) && <Button onClick={() => onFix(fault)}>{t("editor.fix")}</Button>}
        </li>
      ))}
    </ul>
  );
}

const LONGEST_SHOWN = 20_000;

function PromptPreview({ preview }: { preview: Preview }) {
  const { budget, block } = preview;
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? block : block.slice(0, LONGEST_SHOWN);
  if (!block) return <p class="quiet">{t("editor.no_block")}</p>;
  return (
    <>
      <dl class="facts">
        <dt>{t("editor.length")}</dt>
        <dd>{t("editor.length_value", { chars: count(block.length), tokens: count(preview.tokens) })}</dd>
        <dt>{t("editor.budget")}</dt>
        <dd>
          {t("editor.budget_value", { after: count(budget.after), max: count(budget.max) })}{" "}
          <Badge tone={budget.fits ? "good" : "bad"}>{t(budget.fits ? "editor.fits" : "editor.fits_not")}</Badge>
        </dd>
      </dl>
      <meter
        class="editor-meter"
        aria-label={t("editor.budget")}
        min={0}
        max={budget.max}
        high={budget.max}
        value={Math.min(budget.after, budget.max)}
      />
      <pre class="editor-block" tabIndex={0}>
        {shown}
      </pre>
      {shown.length < block.length && <Button onClick={() => setWhole(true)}>{t("editor.show_all")}</Button>}
    </>
  );
}

const DECISIONS: Record<string, Tone> = { offer: "good", maybe: "warn", no: "plain" };
const TRIALS_KEY = "editor-messages";

function TriggerTest({ edits, address }: { edits: Edits; address: string }) {
  const [typed, setTyped] = useState(() => sessionStorage.getItem(TRIALS_KEY) ?? "");
  const [state, setState] = useState<{ items?: Shapes["TrialShape"][]; problem?: Problem }>({});
  const messages = typed
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean)
    .slice(0, 50);
  useSettled(
    async (signal) => {
      if (!messages.length) return setState({});
      const body = { ...edits, skill: address, messages } as unknown as Shapes["TrialBody"];
      try {
        const { items } = await ask(api.POST("/api/v1/skills/trigger-test", { body, signal }));
        setState({ items });
      } catch (error) {
        if (!signal.aborted) setState((last) => ({ ...last, problem: asProblem(error) }));
      }
    },
    [edits, address, messages.join("\n")],
    400,
  );
  return (
    <>
      <Field label={t("editor.messages")} hint={t("editor.messages_hint")}>
        {(ids) => (
          <textarea
            {...ids}
            rows={3}
            value={typed}
            onInput={(event) => {
              setTyped(event.currentTarget.value);
              sessionStorage.setItem(TRIALS_KEY, event.currentTarget.value);
            }}
          />
        )}
      </Field>
      {state.problem && <ProblemBox problem={state.problem} />}
      <ul class="editor-list" aria-label={t("editor.trials")} aria-live="polite">
        {state.items?.map((trial, number) => (
          <li key={number}>
            <p class="editor-item-head">
              <Badge tone={DECISIONS[trial.decision]}>{t(`editor.decision_${trial.decision}`)}</Badge>
              <span class="quiet">
                {trial.place === null
                  ? t("editor.no_place")
                  : t("editor.place", { place: trial.place, score: fit(trial.score ?? 0) })}
              </span>
            </p>
            <p>{trial.message}</p>
            <p class="quiet">{trial.why}</p>
            <Ranking trial={trial} />
          </li>
        ))}
      </ul>
    </>
  );
}

function Ranking({ trial }: { trial: Shapes["TrialShape"] }) {
  if (trial.ranking.length < 2) return null;
  return (
    <details>
      <summary>{t("editor.ranking")}</summary>
      <ol class="editor-ranking">
        {trial.ranking.map((rival) => (
          <li key={rival.slug} value={rival.place}>
            {rival.draft ? <strong>{rival.title}</strong> : rival.title}{" "}
            <span class="quiet">
              {fit(rival.score)} · {rival.why}
            </span>
          </li>
        ))}
      </ol>
    </details>
  );
}

const FINDING_TONES: Record<string, Tone> = { danger: "bad", caution: "warn" };

function Reach({ preview, onJump }: { preview: Preview; onJump: Props["onJump"] }) {
  return (
    <>
      <p>
        <ReachBadge reach={preview.reach} /> {preview.sends_out && <Badge tone="bad">{t("editor.sends_out")}</Badge>}
      </p>
      {preview.requests.length > 0 && (
        <>
          <h2 class="editor-h">{t("editor.requests")}</h2>
          <ul>
            {preview.requests.map((text) => (
              <li key={text}>{text}</li>
            ))}
          </ul>
        </>
      )}
      <h2 class="editor-h">{t("editor.findings")}</h2>
      {!preview.findings.length && <p class="quiet">{t("editor.no_findings")}</p>}
      <ul class="editor-list">
        {preview.findings.map((finding, number) => (
          <li key={number}>
            <p class="editor-item-head">
              <Badge tone={FINDING_TONES[finding.severity] ?? "plain"}>{finding.severity}</Badge>
              <button type="button" class="editor-place" onClick={() => onJump(finding.path, finding.line ?? 1, 1)}>
                {t("editor.line", { path: finding.path, line: finding.line ?? 1 })}
              </button>
            </p>
            <p>
              <Words text={finding.message} />
            </p>
          </li>
        ))}
      </ul>
    </>
  );
}
