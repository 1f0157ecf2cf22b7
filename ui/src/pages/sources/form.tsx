// Add a source, with a preview of what it would bring, or change one.

import { useState } from "preact/hooks";
import { api, ask, Problem, type Shapes } from "../../api/client";
import { t } from "../../i18n";
import { Button, Choice, Field } from "../../parts/controls";
import { Dialog } from "../../parts/dialog";
import { asProblem, ProblemBox } from "../../parts/states";
import { say } from "../../parts/toast";
import { me } from "../../state";
import { kindName, Result } from "./result";

type Source = Shapes["SourceShape"];
type Kind = Source["source_type"];

interface Draft {
  name: string;
  kind: Kind;
  place: string;
  ref: string;
  path: string;
  key: string;
  isAutomatic: boolean;
  minutes: string;
  isKept: boolean;
  scope: "org" | "user";
  enabled: boolean;
}

const KINDS: Kind[] = ["github", "url", "marketplace"];
/** The field of the configuration that has the address. */
const PLACES = { github: "repo", url: "url", marketplace: "base_url" } as const;

function draftOf(source: Source | undefined): Draft {
  const config = (source?.config ?? {}) as Record<string, string | undefined>;
  return {
    name: source?.name ?? "",
    kind: source?.source_type ?? "github",
    place: config.repo ?? config.url ?? config.base_url ?? "",
    ref: config.ref ?? "",
    path: config.path ?? "",
    key: config.key ?? "",
    isAutomatic: config.sync_policy === "auto",
    minutes: String(config.sync_interval_minutes ?? 360),
    isKept: config.on_removed === "keep",
    scope: source?.scope === "user" ? "user" : "org",
    enabled: source?.enabled ?? true,
  };
}

function configOf(draft: Draft): Shapes["ConfigBody"] {
  return {
    [PLACES[draft.kind]]: draft.place.trim(),
    ...(draft.kind === "github" && draft.ref.trim() ? { ref: draft.ref.trim() } : {}),
    ...(draft.kind === "github" && draft.path.trim() ? { path: draft.path.trim() } : {}),
    ...(draft.kind === "marketplace" && draft.key.trim() ? { key: draft.key.trim() } : {}),
    sync_policy: draft.isAutomatic ? "auto" : "manual",
    sync_interval_minutes: Number(draft.minutes) || 360,
    on_removed: draft.isKept ? "keep" : "delete",
  };
}

/** Return a name for a source from its address. */
function nameOf(place: string): string {
  const words = place.replace(/^https?:\/\//, "").replace(/(\.git)?\/*$/, "");
  return words.split("/").slice(-2).join("/").slice(0, 80);
}

interface Props {
  source: Source | undefined;
  onClose: () => void;
  onSaved: (source: Source) => void;
}

export function SourceForm({ source, onClose, onSaved }: Props) {
  const [draft, setDraft] = useState(draftOf(source));
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  const [preview, setPreview] = useState<Shapes["SyncShape"] | undefined>(undefined);
  const change = (fields: Partial<Draft>) => {
    setDraft((last) => ({ ...last, ...fields }));
    if ("place" in fields || "kind" in fields || "ref" in fields || "path" in fields) setPreview(undefined);
  };
  const attemptHere = async (work: () => Promise<void>) => {
    setProblem(undefined);
    if (!draft.place.trim()) {
      setProblem(new Problem(422, "invalid", t("sources.place_missing")));
      return;
    }
    try {
      await work();
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  const look = () =>
    attemptHere(async () => {
      const body = { source_type: draft.kind, config: configOf(draft), scope: draft.scope };
      setPreview(await ask(api.POST("/api/v1/skills/sources/preview", { body })));
    });
  const save = () =>
    attemptHere(async () => {
      const name = draft.name.trim() || nameOf(draft.place.trim());
      const config = configOf(draft);
      const saved = source
        ? await ask(
            api.PUT("/api/v1/skills/sources/{id}", {
              params: { path: { id: source.id } },
              body: { name, config, enabled: draft.enabled },
            }),
          )
        : await ask(
            api.POST("/api/v1/skills/sources", {
              body: { name, source_type: draft.kind, config, scope: draft.scope, enabled: draft.enabled },
            }),
          );
      say(source ? t("sources.saved", { name }) : t("sources.added", { name }));
      onSaved(saved);
    });
  const fails = preview?.status === "failed";
  return (
    <Dialog
      title={source ? t("sources.edit_title", { name: source.name }) : t("sources.add")}
      onClose={onClose}
      isWide={preview !== undefined}
      actions={
        <>
          <Button onClick={onClose}>{t("states.cancel")}</Button>
          {!source && !preview && (
            <Button look="primary" onClick={look}>
              {t("sources.look")}
            </Button>
          )}
          {(source || preview) && (
            <Button look={fails ? "normal" : "primary"} onClick={save}>
              {source ? t("sources.save") : fails ? t("sources.add_anyway") : t("sources.add_and_sync")}
            </Button>
          )}
        </>
      }
    >
      {problem && <ProblemBox problem={problem} />}
      <Fields draft={draft} isNew={!source} onChange={change} />
      {preview && <Result result={preview} />}
    </Dialog>
  );
}

interface FieldsProps {
  draft: Draft;
  isNew: boolean;
  onChange: (fields: Partial<Draft>) => void;
}

function Fields({ draft, isNew, onChange }: FieldsProps) {
  return (
    <>
      {isNew && (
        <Choice
          label={t("sources.kind")}
          value={draft.kind}
          options={KINDS.map((kind) => ({ value: kind, label: kindName(kind) }))}
          onChange={(kind) => onChange({ kind })}
        />
      )}
      <Field label={t(`sources.place_${draft.kind}`)} hint={t(`sources.place_${draft.kind}_hint`)}>
        {(ids) => (
          <input
            {...ids}
            value={draft.place}
            required
            autocomplete="off"
            spellcheck={false}
            onInput={(event) => onChange({ place: event.currentTarget.value })}
          />
        )}
      </Field>
      {draft.kind === "github" && (
        <div class="sources-pair">
          <Field label={t("sources.ref")} hint={t("sources.ref_hint")}>
            {(ids) => (
              <input {...ids} value={draft.ref} onInput={(event) => onChange({ ref: event.currentTarget.value })} />
            )}
          </Field>
          <Field label={t("sources.path")} hint={t("sources.path_hint")}>
            {(ids) => (
              <input {...ids} value={draft.path} onInput={(event) => onChange({ path: event.currentTarget.value })} />
            )}
          </Field>
        </div>
      )}
      {draft.kind === "marketplace" && (
        <Field label={t("sources.key")} hint={t("sources.key_hint")}>
          {(ids) => (
            <input {...ids} value={draft.key} onInput={(event) => onChange({ key: event.currentTarget.value })} />
          )}
        </Field>
      )}
      <Field label={t("sources.name")} hint={t("sources.name_hint")}>
        {(ids) => (
          <input
            {...ids}
            value={draft.name}
            placeholder={nameOf(draft.place)}
            onInput={(event) => onChange({ name: event.currentTarget.value })}
          />
        )}
      </Field>
      {isNew && me.value?.organization_id && (
        <div class="toolbar">
          <Choice
            label={t("browse.for")}
            value={draft.scope}
            options={[
              { value: "org", label: t("browse.for_org") },
              { value: "user", label: t("browse.for_me") },
            ]}
            onChange={(scope) => onChange({ scope })}
          />
        </div>
      )}
      <Check
        label={t("sources.automatic")}
        isOn={draft.isAutomatic}
        onChange={(isAutomatic) => onChange({ isAutomatic })}
      />
      {draft.isAutomatic && (
        <Field label={t("sources.minutes")}>
          {(ids) => (
            <input
              {...ids}
              type="number"
              min={5}
              max={43_200}
              value={draft.minutes}
              onInput={(event) => onChange({ minutes: event.currentTarget.value })}
            />
          )}
        </Field>
      )}
      <Check label={t("sources.keep_removed")} isOn={draft.isKept} onChange={(isKept) => onChange({ isKept })} />
      {!isNew && <Check label={t("sources.on")} isOn={draft.enabled} onChange={(enabled) => onChange({ enabled })} />}
    </>
  );
}

function Check({ label, isOn, onChange }: { label: string; isOn: boolean; onChange: (isOn: boolean) => void }) {
  return (
    <label class="browse-read">
      <input type="checkbox" checked={isOn} onChange={(event) => onChange(event.currentTarget.checked)} /> {label}
    </label>
  );
}
