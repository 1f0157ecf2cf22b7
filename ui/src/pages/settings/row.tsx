// One setting: its value in a field, where it comes from, and what to do with it.
import { useState } from "preact/hooks";
import { api, ask, type Problem, type Shapes } from "../../api/client";
import { ago, moment } from "../../format";
import { t } from "../../i18n";
import { Badge } from "../../parts/badge";
import { Button, Choice, Field } from "../../parts/controls";
import { asProblem, Words } from "../../parts/states";
import { say } from "../../parts/toast";
import { may } from "../../state";
import { helpOf } from "./groups";

type Setting = Shapes["SettingStateShape"];

interface Draft {
  text: string;
  /** What was stored when the person began to write. */
  before: string;
}

export function SettingRow({ setting, label, onChange }: { setting: Setting; label: string; onChange: () => void }) {
  const kind = kindOf(setting.name, setting.default, setting.choices);
  const stored = toText(kind, setting.value);
  const [draft, setDraft] = useState<Draft>();
  const [problem, setProblem] = useState<Problem>();
  const text = draft?.text ?? stored;
  const isChanged = draft !== undefined && draft.text !== stored;
  const isFixed = !may("admin");
  const write = (next: string) => {
    setProblem(undefined);
    setDraft({ text: next, before: draft?.before ?? stored });
  };
  const discard = () => {
    setDraft(undefined);
    setProblem(undefined);
  };
  const change = async (request: Promise<unknown>) => {
    try {
      await request;
      discard();
      say(t("settings.said_saved", { name: label }));
      onChange();
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  const params = { path: { name: setting.name } };
  const save = () => change(ask(api.PUT("/api/v1/settings/{name}", { params, body: { value: fromText(kind, text) } })));
  const reset = () => change(ask(api.DELETE("/api/v1/settings/{name}", { params })));
  const told = problem ? [problem.message, problem.hint].filter(Boolean).join(" ") : undefined;
  return (
    <form
      class="settings-row"
      onSubmit={(event) => {
        event.preventDefault();
        save();
      }}
    >
      <div class="settings-about">
        <p class="settings-label" aria-hidden="true">
          {label}
        </p>
        <p class="quiet">{helpOf(setting.name)}</p>
        <code>{setting.name}</code>
      </div>
      <div class="settings-value">
        {kind === "flag" || kind === "choice" ? (
          <>
            <Choice
              label={label}
              value={text}
              options={
                kind === "flag"
                  ? [
                      { value: "true", label: t("settings.on") },
                      { value: "false", label: t("settings.off") },
                    ]
                  : setting.choices.map((one) => ({ value: one, label: policyName(one) }))
              }
              onChange={write}
              disabled={isFixed}
            />
            {told && (
              <p class="settings-problem" role="alert">
                <Words text={told} />
              </p>
            )}
          </>
        ) : (
          <Field label={label} problem={told} hint={kind === "number" ? undefined : t(`settings.hint_${kind}`)}>
            {(ids) =>
              kind === "number" ? (
                <input
                  {...ids}
                  inputMode="decimal"
                  class="short"
                  value={text}
                  readOnly={isFixed}
                  onInput={(event) => write(event.currentTarget.value)}
                />
              ) : (
                <textarea
                  {...ids}
                  rows={Math.min(12, Math.max(2, text.split("\n").length))}
                  spellcheck={false}
                  value={text}
                  readOnly={isFixed}
                  onInput={(event) => write(event.currentTarget.value)}
                />
              )
            }
          </Field>
        )}
        {draft && draft.before !== stored && (
          <p class="notice" role="status">
            {t("settings.changed_meanwhile", { value: stored || "–", name: setting.changed_by || "?" })}
          </p>
        )}
        <p class="settings-source">
          <Source setting={setting} fallback={toText(kind, setting.default)} />
          {isChanged && !isFixed && (
            <>
              <Button look="primary" type="submit">
                {t("settings.save")}
              </Button>
              <Button look="plain" onClick={discard}>
                {t("states.cancel")}
              </Button>
            </>
          )}
          {!isChanged && !isFixed && setting.source === "organization" && (
            <Button look="plain" onClick={reset} aria-label={t("settings.reset_name", { name: label })}>
              {t("settings.reset")}
            </Button>
          )}
        </p>
      </div>
    </form>
  );
}

function Source({ setting, fallback }: { setting: Setting; fallback: string }) {
  if (setting.faulty) return <Badge tone="bad">{t("settings.faulty")}</Badge>;
  if (setting.source === "default") return <span class="quiet">{t("settings.is_default")}</span>;
  return (
    <span class="quiet">
      <time title={moment(setting.changed_at)}>
        {t("settings.set_by", { name: setting.changed_by, when: ago(setting.changed_at) })}
      </time>
      {" · "}
      {t("settings.default_is", { value: fallback || t("settings.empty") })}
    </span>
  );
}

function policyName(name: string): string {
  if (name === "auto") return t("settings.policy_auto");
  if (name === "prompt-user") return t("settings.policy_ask");
  return name === "admin-only" ? t("settings.policy_admin") : name;
}

// Values of settings as the text of a field, and back. What is not valid stays a text, and the server says why.
type Kind = "flag" | "choice" | "number" | "list" | "pairs" | "json";

function kindOf(name: string, fallback: unknown, choices: string[]): Kind {
  if (choices.length > 0) return "choice";
  if (name === "roles") return "json";
  if (typeof fallback === "boolean") return "flag";
  if (typeof fallback === "number") return "number";
  if (Array.isArray(fallback)) return "list";
  return "pairs";
}

function toText(kind: Kind, value: unknown): string {
  if (value === null || value === undefined) return "";
  if (kind === "list") return (value as string[]).join("\n");
  if (kind === "pairs")
    return Object.entries(value as Record<string, string>)
      .map((pair) => pair.join(" = "))
      .join("\n");
  if (kind === "json") return Object.keys(value as object).length > 0 ? JSON.stringify(value, null, 2) : "";
  return String(value);
}

function fromText(kind: Kind, text: string): unknown {
  const lines = text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
  switch (kind) {
    case "flag":
      return text === "true";
    case "number":
      return text.trim() === "" || Number.isNaN(Number(text)) ? text : Number(text);
    case "list":
      return lines;
    case "pairs":
      return Object.fromEntries(
        lines.map((line) => {
          const at = line.indexOf("=");
          return at < 0 ? [line, ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
        }),
      );
    case "json":
      return readJson(text);
    default:
      return text;
  }
}

function readJson(text: string): unknown {
  if (text.trim() === "") return {};
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
