// Dialogs that start something: an evaluation, an optimisation, a draft.

import type { ComponentChildren } from "preact";
import { useId, useState } from "preact/hooks";
import { api, ask, type Problem } from "../../api/client";
import { useLoad } from "../../api/load";
import { t } from "../../i18n";
import { Field, NumberField } from "../../parts/controls";
import { Dialog } from "../../parts/dialog";
import { asProblem, ProblemBox } from "../../parts/states";
import { say } from "../../parts/toast";
import { METHODS, methodName } from "./optimizations";

interface FrameProps {
  title: string;
  action: string;
  isReady: boolean;
  onStart: () => Promise<void>;
  onClose: () => void;
  children: ComponentChildren;
}

function Frame({ title, action, isReady, onStart, onClose, children }: FrameProps) {
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  const start = async () => {
    setProblem(undefined);
    try {
      await onStart();
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  return (
    <Dialog
      title={title}
      onClose={onClose}
      answer={{ text: action, look: "primary", onClick: start, disabled: !isReady }}
    >
      {problem && <ProblemBox problem={problem} />}
      {children}
    </Dialog>
  );
}

/** The slug of a skill, with suggestions. */
function SkillField({ value, hint, onInput }: { value: string; hint?: string; onInput: (slug: string) => void }) {
  const list = useId();
  const skills = useLoad((signal) => ask(api.GET("/api/v1/skills", { params: { query: { limit: 200 } }, signal })), []);
  return (
    <Field label={t("evals.skill")} hint={hint}>
      {(ids) => (
        <>
          <input
            {...ids}
            list={list}
            value={value}
            autocomplete="off"
            onInput={(event) => onInput(event.currentTarget.value)}
          />
          <datalist id={list}>
            {skills.data?.items.map((skill) => (
              <option key={skill.id} value={skill.slug} />
            ))}
          </datalist>
        </>
      )}
    </Field>
  );
}

function ModelField({ value, onInput }: { value: string; onInput: (model: string) => void }) {
  return (
    <Field label={t("evals.model")} hint={t("evals.model_hint")}>
      {(ids) => <input {...ids} value={value} onInput={(event) => onInput(event.currentTarget.value)} />}
    </Field>
  );
}

export function StartEval({ skill, onClose }: { skill: string; onClose: () => void }) {
  const [slug, setSlug] = useState(skill);
  const [model, setModel] = useState("");
  const [repeats, setRepeats] = useState("1");
  const [spend, setSpend] = useState("");
  const [isWithout, setWithout] = useState(true);
  const start = async () => {
    await ask(
      api.POST("/api/v1/evals", {
        body: {
          skill_slug: slug.trim(),
          name: "",
          models: model.trim() ? [model.trim()] : [],
          evaluation_model: "",
          repeats: Number(repeats) || 1,
          without: isWithout,
          against: "",
          cases: [],
          cache: true,
          ...(Number(spend) > 0 ? { max_spend: Number(spend) } : {}),
        },
      }),
    );
    say(t("evals.started", { skill: slug.trim() }));
    onClose();
  };
  return (
    <Frame
      title={t("evals.start_runs")}
      action={t("evals.start")}
      isReady={slug.trim() !== ""}
      onStart={start}
      onClose={onClose}
    >
      <SkillField value={slug} hint={t("evals.skill_hint")} onInput={setSlug} />
      <ModelField value={model} onInput={setModel} />
      <div class="evals-pair">
        <NumberField label={t("evals.repeats")} value={repeats} onInput={setRepeats} />
        <NumberField label={t("evals.spend")} hint={t("evals.spend_hint")} value={spend} onInput={setSpend} />
      </div>
      <label class="evals-check">
        <input type="checkbox" checked={isWithout} onChange={(event) => setWithout(event.currentTarget.checked)} />{" "}
        {t("evals.without")}
      </label>
    </Frame>
  );
}

interface StartProps {
  skill?: string;
  onClose: () => void;
  onStarted: (id: string) => void;
}

export function StartOptimization({ skill = "", onClose, onStarted }: StartProps) {
  const [slug, setSlug] = useState(skill);
  const [method, setMethod] = useState<(typeof METHODS)[number]>("rewrite");
  const [metric, setMetric] = useState("assertions");
  const [calls, setCalls] = useState("500");
  const [spend, setSpend] = useState("");
  const [model, setModel] = useState("");
  const start = async () => {
    const made = await ask(
      api.POST("/api/v1/optimizations", {
        body: {
          skill_slug: slug.trim(),
          artifact: "",
          method,
          metric: metric.trim() || "assertions",
          max_calls: Number(calls) || 500,
          minutes: 30,
          repeats: 1,
          model: model.trim(),
          evaluation_model: "",
          template: "predict",
          traces: true,
          ...(Number(spend) > 0 ? { budget_usd: Number(spend) } : {}),
        },
      }),
    );
    onStarted(made.id);
  };
  return (
    <Frame
      title={t("evals.start_optimizations")}
      action={t("evals.start")}
      isReady={slug.trim() !== ""}
      onStart={start}
      onClose={onClose}
    >
      <p class="quiet">{t("optimization.start_hint")}</p>
      <SkillField value={slug} onInput={setSlug} />
      <Field label={t("optimization.method")}>
        {(ids) => (
          <select
            {...ids}
            value={method}
            onChange={(event) => setMethod(event.currentTarget.value as (typeof METHODS)[number])}
          >
            {METHODS.map((one) => (
              <option key={one} value={one}>
                {methodName(one)}
              </option>
            ))}
          </select>
        )}
      </Field>
      <Field label={t("optimization.metric")} hint={t("optimization.metric_hint")}>
        {(ids) => <input {...ids} value={metric} onInput={(event) => setMetric(event.currentTarget.value)} />}
      </Field>
      <div class="evals-pair">
        <NumberField label={t("optimization.calls")} value={calls} onInput={setCalls} />
        <NumberField label={t("evals.spend")} hint={t("evals.spend_hint")} value={spend} onInput={setSpend} />
      </div>
      <ModelField value={model} onInput={setModel} />
    </Frame>
  );
}

export function StartComposition({ onClose, onStarted }: StartProps) {
  const [request, setRequest] = useState(sessionStorage.getItem("draft-request") ?? "");
  const [slug, setSlug] = useState("");
  const [model, setModel] = useState("");
  const write = (text: string) => {
    setRequest(text);
    // What somebody has typed is still there after a reload.
    sessionStorage.setItem("draft-request", text);
  };
  const start = async () => {
    const body = { request: request.trim(), skill: slug.trim(), model: model.trim() };
    const made = await ask(api.POST("/api/v1/compositions", { body }));
    sessionStorage.removeItem("draft-request");
    onStarted(made.id);
  };
  return (
    <Frame
      title={t("evals.start_drafts")}
      action={t("evals.draft")}
      isReady={request.trim() !== ""}
      onStart={start}
      onClose={onClose}
    >
      <Field label={t("evals.request")} hint={t("evals.request_hint")}>
        {(ids) => <textarea {...ids} rows={4} value={request} onInput={(event) => write(event.currentTarget.value)} />}
      </Field>
      <SkillField value={slug} hint={t("evals.change_hint")} onInput={setSlug} />
      <ModelField value={model} onInput={setModel} />
    </Frame>
  );
}
