// The form that starts a batch. What was entered is kept in this browser until the batch starts.
import { useEffect, useMemo, useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { api, ask, type Problem } from "../../api/client";
import { useLoad } from "../../api/load";
import { bytes } from "../../format";
import { t } from "../../i18n";
import { Button, Field, NumberField } from "../../parts/controls";
import { Dialog, useInvalidFocus } from "../../parts/dialog";
import { asProblem, ProblemBox, Words } from "../../parts/states";
import { say } from "../../parts/toast";
import { readItems } from "./items";

interface Draft {
  skill: string;
  text: string;
  name: string;
  concurrency: string;
  maxSpend: string;
}

const KEY = "batch-draft";
const EMPTY: Draft = { skill: "", text: "", name: "", concurrency: "4", maxSpend: "" };
const LARGEST_FILE = 8 * 1024 * 1024;
const MOST_CONCURRENT = 256;
const EXAMPLE = '{"topic": "tides"}';
const SHOWN_FIELDS = 6;

export default function StartBatch({ skill, onClose }: { skill: string; onClose: () => void }) {
  const { route } = useLocation();
  const [draft, setDraft] = useState<Draft>(() => ({ ...readDraft(), ...(skill && { skill }) }));
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  const [tries, setTries] = useState(0);
  const isTried = tries > 0;
  useInvalidFocus(tries);
  const [fileProblem, setFileProblem] = useState("");
  const change = (changes: Partial<Draft>) => setDraft((last) => ({ ...last, ...changes }));
  useEffect(() => keepDraft(draft), [draft]);
  const read = useMemo(() => readItems(draft.text), [draft.text]);
  const skills = useLoad(
    (signal) => ask(api.GET("/api/v1/skills", { params: { query: { q: draft.skill.trim(), limit: 20 } }, signal })),
    [draft.skill.trim()],
  );
  const start = async () => {
    setTries(tries + 1);
    setProblem(undefined);
    if (!draft.skill.trim() || read.items.length === 0) return;
    const body = {
      skill_slug: draft.skill.trim(),
      name: draft.name.trim(),
      items: read.items,
      session: "",
      model: "",
      evaluation_model: "",
      concurrency: Number(draft.concurrency) || 1,
      ...(Number(draft.maxSpend) > 0 && { max_spend: Number(draft.maxSpend) }),
    };
    try {
      const job = await ask(api.POST("/api/v1/jobs", { body }));
      localStorage.removeItem(KEY);
      say(t("jobs.started"));
      route(`/jobs/${job.id}`);
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  const choose = async (file: File | undefined) => {
    if (!file) return;
    setFileProblem(file.size > LARGEST_FILE ? t("jobs.file_large", { size: bytes(LARGEST_FILE) }) : "");
    if (file.size <= LARGEST_FILE) change({ text: await file.text() });
  };
  const missing = isTried && read.items.length === 0 ? t("jobs.no_items") : "";
  return (
    <Dialog
      title={t("jobs.start")}
      onClose={onClose}
      actions={
        <>
          <Button onClick={onClose}>{t("jobs.close")}</Button>
          <Button look="primary" onClick={start}>
            {t("jobs.start")}
          </Button>
        </>
      }
    >
      {problem && <ProblemBox problem={problem} />}
      <Field
        label={t("jobs.skill")}
        hint={t("jobs.skill_hint")}
        problem={isTried && !draft.skill.trim() ? t("jobs.no_skill") : ""}
      >
        {(ids) => (
          <>
            <input
              {...ids}
              list="jobs-skills"
              autocomplete="off"
              value={draft.skill}
              onInput={(event) => change({ skill: event.currentTarget.value })}
            />
            <datalist id="jobs-skills">
              {(skills.data?.items ?? []).map((one) => (
                <option key={one.id} value={one.slug}>
                  {one.name}
                </option>
              ))}
            </datalist>
          </>
        )}
      </Field>
      <Field
        label={t("jobs.items")}
        hint={<Words text={t("jobs.items_hint", { example: `\`${EXAMPLE}\`` })} />}
        problem={fileProblem || read.problem || missing}
      >
        {(ids) => (
          <textarea
            {...ids}
            class="jobs-items"
            rows={8}
            spellcheck={false}
            value={draft.text}
            onInput={(event) => change({ text: event.currentTarget.value })}
          />
        )}
      </Field>
      <div class="jobs-found" role="status">
        <label class="button">
          {t("jobs.file")}
          <input
            type="file"
            class="hidden-text"
            accept=".csv,.tsv,.jsonl,.ndjson,.json,.txt"
            onChange={(event) => choose(event.currentTarget.files?.[0])}
          />
        </label>
        {read.items.length > 0 && <Found items={read.items} />}
      </div>
      <div class="jobs-options">
        <Field label={t("jobs.name")} hint={t("jobs.name_hint")}>
          {(ids) => (
            <input
              {...ids}
              maxLength={100}
              value={draft.name}
              onInput={(event) => change({ name: event.currentTarget.value })}
            />
          )}
        </Field>
        <Field label={t("jobs.concurrency")}>
          {(ids) => (
            <input
              {...ids}
              type="number"
              min={1}
              max={MOST_CONCURRENT}
              value={draft.concurrency}
              onInput={(event) => change({ concurrency: event.currentTarget.value })}
            />
          )}
        </Field>
        <NumberField
          label={t("jobs.max_spend")}
          hint={t("jobs.max_spend_hint")}
          value={draft.maxSpend}
          onInput={(value) => change({ maxSpend: value })}
        />
      </div>
      <p class="quiet">{t("jobs.draft_kept")}</p>
    </Dialog>
  );
}

function Found({ items }: { items: Record<string, unknown>[] }) {
  const fields = Object.keys(items[0] ?? {});
  const names = fields.slice(0, SHOWN_FIELDS).join(", ") + (fields.length > SHOWN_FIELDS ? " …" : "");
  return (
    <span>
      <strong>{t("jobs.found", { count: items.length })}</strong> {names && t("jobs.found_fields", { fields: names })}
    </span>
  );
}

function readDraft(): Draft {
  try {
    return { ...EMPTY, ...(JSON.parse(localStorage.getItem(KEY) ?? "{}") as Partial<Draft>) };
  } catch {
    return EMPTY;
  }
}

function keepDraft(draft: Draft) {
  try {
    localStorage.setItem(KEY, JSON.stringify(draft));
  } catch {
    // The text is larger than the browser keeps. The form still has it.
  }
}
