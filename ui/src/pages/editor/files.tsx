// The files of a skill: choosing one, adding an artifact or a file, renaming and removing.
import { useState } from "preact/hooks";
import { type MessageKey, t } from "../../i18n";
import { Button, Field } from "../../parts/controls";
import { Dialog } from "../../parts/dialog";
import { STARTERS, type Starter } from "./starters";

interface AddProps {
  paths: string[];
  onClose: () => void;
  onArtifact: (starter: Starter, name: string) => void;
  onFile: (path: string) => void;
}

const ANY_FILE = "file";

export function AddDialog({ paths, onClose, onArtifact, onFile }: AddProps) {
  const [kind, setKind] = useState("prompt_template");
  const [name, setName] = useState("");
  const starter = STARTERS.find((one) => one.id === kind);
  const hasName = kind !== "function_python" && kind !== "function_typescript";
  const path = starter ? starter.path(name.trim()) : name.trim();
  const problem = hasName && !name.trim() ? "" : pathProblem(path, paths);
  const isReady = (!hasName || name.trim() !== "") && !problem;
  const add = (event: Event) => {
    event.preventDefault();
    if (!isReady) return;
    if (starter) onArtifact(starter, name.trim() || "execute");
    else onFile(path);
  };
  return (
    <Dialog title={t("editor.add")} onClose={onClose}>
      <form onSubmit={add}>
        <Field label={t("editor.kind")} hint={t(`editor.about_${kind}` as MessageKey)}>
          {(ids) => (
            <select {...ids} value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
              {STARTERS.map((one) => (
                <option key={one.id} value={one.id}>
                  {t(`editor.kind_${one.id}` as MessageKey)}
                </option>
              ))}
              <option value={ANY_FILE}>{t("editor.kind_file")}</option>
            </select>
          )}
        </Field>
        {hasName && (
          <Field
            label={starter ? t("editor.artifact_name") : t("editor.path")}
            hint={path && name.trim() ? t("editor.becomes", { path }) : undefined}
            problem={problem}
          >
            {(ids) => (
              <input {...ids} value={name} autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} />
            )}
          </Field>
        )}
        {!hasName && problem && <p class="editor-bad">{problem}</p>}
        <div class="editor-buttons">
          <Button type="submit" look="primary" disabled={!isReady}>
            {t("editor.add_button")}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

interface RenameProps {
  path: string;
  paths: string[];
  onClose: () => void;
  onRename: (path: string) => void;
}

export function RenameDialog({ path, paths, onClose, onRename }: RenameProps) {
  const [name, setName] = useState(path);
  const others = paths.filter((one) => one !== path);
  const problem = pathProblem(name.trim(), others);
  const rename = (event: Event) => {
    event.preventDefault();
    if (!problem) onRename(name.trim());
  };
  return (
    <Dialog title={t("editor.rename_title", { path })} onClose={onClose}>
      <form onSubmit={rename}>
        <Field label={t("editor.path")} problem={problem} hint={t("editor.rename_hint")}>
          {(ids) => (
            <input {...ids} value={name} autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} />
          )}
        </Field>
        <div class="editor-buttons">
          <Button type="submit" look="primary" disabled={Boolean(problem) || name.trim() === path}>
            {t("editor.rename")}
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

/** Return why a path cannot be that of a new file; empty if it can. The server checks it again. */
function pathProblem(path: string, paths: string[]): string {
  if (!path) return "";
  if (/^\/|\\|(^|\/)\.{0,2}(\/|$)|[\p{C}]/u.test(path)) return t("editor.path_invalid");
  return paths.some((one) => one.toLowerCase() === path.toLowerCase()) ? t("editor.path_taken") : "";
}

interface TabsProps {
  paths: string[];
  current: string;
  changed: Set<string>;
  faulty: Set<string>;
  onChoose: (path: string) => void;
}

const MOST_TABS = 12;

/** The files to choose from. Many of them are a list that opens. */
export function FileChoice({ paths, current, changed, faulty, onChoose }: TabsProps) {
  const nameOf = (path: string) => (changed.has(path) ? `${path} •` : path);
  if (paths.length > MOST_TABS)
    return (
      <select
        class="editor-select"
        aria-label={t("editor.file")}
        value={current}
        onChange={(event) => onChoose(event.currentTarget.value)}
      >
        {paths.map((path) => (
          <option key={path} value={path}>
            {nameOf(path)}
          </option>
        ))}
      </select>
    );
  return (
    <fieldset class="editor-files">
      <legend class="hidden-text">{t("editor.file")}</legend>
      {paths.map((path) => (
        <button
          key={path}
          type="button"
          aria-pressed={path === current}
          class={faulty.has(path) ? "faulty" : undefined}
          onClick={() => onChoose(path)}
        >
          {path}
          {changed.has(path) && (
            <span class="editor-dot">
              <span aria-hidden="true">•</span>
              <span class="hidden-text">{t("editor.changed")}</span>
            </span>
          )}
        </button>
      ))}
    </fieldset>
  );
}
