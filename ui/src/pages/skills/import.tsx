// Import skills of a file: first what is in it, then where they go.
import { useEffect, useState } from "preact/hooks";
import { Problem, problemOf, type Shapes } from "../../api/client";
import { t } from "../../i18n";
import { Badge } from "../../parts/badge";
import { Button, Choice, Field } from "../../parts/controls";
import { Dialog } from "../../parts/dialog";
import { scopeLabel } from "../../parts/skill-badges";
import { asProblem, Loading, ProblemBox, Words } from "../../parts/states";
import { say } from "../../parts/toast";
import { me } from "../../state";

type Checked = Shapes["ValidationShape"];
type Result = Shapes["ImportShape"];

export const FILE_TYPES = ".md,.zip,.skill,.tar,.tgz,.tar.gz,.gz,.json";

function contentType(name: string): string {
  if (/\.(zip|skill)$/i.test(name)) return "application/zip";
  if (/\.(tgz|gz)$/i.test(name)) return "application/gzip";
  if (/\.tar$/i.test(name)) return "application/x-tar";
  return /\.json$/i.test(name) ? "application/json" : "text/markdown";
}

async function upload<T>(path: string, file: File): Promise<T> {
  let response: Response;
  try {
    response = await fetch(path, { method: "POST", headers: { "Content-Type": contentType(file.name) }, body: file });
  } catch {
    throw new Problem(0, "offline", "");
  }
  const body: unknown = await response.json().catch(() => undefined);
  if (!response.ok) throw problemOf(response.status, body);
  return body as T;
}

interface Props {
  file: File;
  onClose: () => void;
  onDone: (slugs: string[]) => void;
}

export function ImportDialog({ file, onClose, onDone }: Props) {
  const [checked, setChecked] = useState<Checked>();
  const [problem, setProblem] = useState<Problem>();
  const [result, setResult] = useState<Result>();
  const [scope, setScope] = useState<"org" | "user" | "workspace">("org");
  const [conflict, setConflict] = useState<"refuse" | "skip" | "replace">("refuse");
  useEffect(() => {
    upload<Checked>("/api/v1/skills/validate", file).then(setChecked, (error) => setProblem(asProblem(error)));
  }, [file]);

  const send = async () => {
    setProblem(undefined);
    try {
      const done = await upload<Result>(`/api/v1/skills/import?scope=${scope}&on_conflict=${conflict}`, file);
      const slugs = done.items.filter((one) => !one.error && one.slug).map((one) => one.slug as string);
      if (done.failed) setResult(done);
      else {
        say(t("skills.imported", { count: done.imported }));
        onDone(slugs);
      }
    } catch (error) {
      setProblem(asProblem(error));
    }
  };

  const usable = checked?.items.filter((one) => one.ok).length ?? 0;
  return (
    <Dialog
      title={t("skills.import_title", { name: file.name })}
      onClose={onClose}
      actions={
        result ? (
          <Button look="primary" onClick={() => onDone([])}>
            {t("states.close")}
          </Button>
        ) : (
          <>
            <Button onClick={onClose}>{t("states.cancel")}</Button>
            <Button look="primary" disabled={!usable} onClick={send}>
              {t("skills.import_count", { count: usable })}
            </Button>
          </>
        )
      }
    >
      {problem && <ProblemBox problem={problem} />}
      {!checked && !problem && <Loading lines={3} />}
      {result && <Outcome result={result} />}
      {checked && !result && (
        <>
          <Found checked={checked} />
          <Field label={t("skills.import_scope")}>
            {(ids) => (
              <select {...ids} value={scope} onChange={(event) => setScope(event.currentTarget.value as typeof scope)}>
                <option value="org">{scopeLabel("org")}</option>
                <option value="user">{t("skills.scope_user")}</option>
                {/* The workspace of a server is a folder of its operator. */}
                {!me.value?.organization_id && <option value="workspace">{t("skills.scope_workspace")}</option>}
              </select>
            )}
          </Field>
          <p class="skills-label">{t("skills.conflict")}</p>
          <Choice
            label={t("skills.conflict")}
            value={conflict}
            options={[
              { value: "refuse", label: t("skills.conflict_refuse") },
              { value: "skip", label: t("skills.conflict_skip") },
              { value: "replace", label: t("skills.conflict_replace") },
            ]}
            onChange={setConflict}
          />
        </>
      )}
    </Dialog>
  );
}

function Found({ checked }: { checked: Checked }) {
  if (!checked.items.length) return <p>{t("skills.import_none")}</p>;
  return (
    <ul class="skills-import">
      {checked.items.slice(0, 100).map((one) => (
        <li key={one.path}>
          <p>
            <strong>{one.title ?? one.slug ?? one.path}</strong>{" "}
            {one.ok ? null : <Badge tone="bad">{t("skills.import_bad")}</Badge>}{" "}
            {one.findings.length > 0 && (
              <Badge tone="warn">{t("skills.findings", { count: one.findings.length })}</Badge>
            )}
          </p>
          <p class="quiet">{one.description}</p>
          {one.problems
            .filter((found) => found.severity !== "info")
            .slice(0, 5)
            .map((found, number) => (
              <p key={number} class={found.severity === "error" ? "skills-error" : "quiet"}>
                <Words text={`${found.message} ${found.hint}`} />
              </p>
            ))}
        </li>
      ))}
    </ul>
  );
}

function Outcome({ result }: { result: Result }) {
  return (
    <>
      <p>{t("skills.imported", { count: result.imported })}</p>
      <ul class="skills-import">
        {result.items
          .filter((one) => one.error)
          .map((one) => (
            <li key={one.path}>
              <strong>{one.slug ?? one.path}</strong>
              <p class="skills-error">
                <Words text={`${one.error?.message ?? ""} ${one.error?.hint ?? ""}`} />
              </p>
            </li>
          ))}
      </ul>
    </>
  );
}
