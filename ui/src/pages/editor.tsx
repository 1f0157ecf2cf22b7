// The editor of skills: the frontmatter as a form and the text side by side, with what it would be beside them.
import { useEffect, useState } from "preact/hooks";
import { useLocation, useRoute } from "preact-iso";
import { ago } from "../format";
import { type MessageKey, t } from "../i18n";
import { Badge } from "../parts/badge";
import { Code, type Jump } from "../parts/code";
import { Button, Choice } from "../parts/controls";
import { Icon } from "../parts/icons";
import { Page } from "../parts/page";
import { RunDialog } from "../parts/run-dialog";
import { shownScope } from "../parts/skill-badges";
import { Loading, ProblemBox } from "../parts/states";
import { say } from "../parts/toast";
import { may, me } from "../state";
import { ArtifactPanel, jsonMarks, languageOf } from "./editor/artifact";
import { ConflictDialog, MergePanel, type Theirs } from "./editor/conflict";
import { plainLines } from "./editor/draft";
import { changeField, type FieldName, SIDECAR, type Texts } from "./editor/fields";
import { AddDialog, FileChoice, RenameDialog } from "./editor/files";
import { FrontmatterForm } from "./editor/form";
import { LeaveGuard } from "./editor/leave";
import { type Fault, usePreview } from "./editor/preview";
import { type Session, useSession } from "./editor/session";
import { SidePanel } from "./editor/side";
import { startArtifact } from "./editor/starters";
import "../style/editor.css";

export default function EditorPage() {
  const { params, query } = useRoute();
  const address = params.slug ?? "";
  const from = query.from ?? "";
  return <Editor key={`${address} ${from}`} address={address} from={from} />;
}

type Window = "" | "add" | "rename" | "run";

function Editor({ address, from }: { address: string; from: string }) {
  const { route } = useLocation();
  const session = useSession(address, from, (slug) => route(`/skills/${encodeURIComponent(slug)}/edit`, true));
  const { stored, edits, isChanged } = session;
  const previewed = usePreview(edits, stored?.address ?? "", session.scope);
  const [chosen, setChosen] = useState("");
  const [jump, setJump] = useState<Jump & { path: string }>();
  const [open, setOpen] = useState<Window>("");
  const [merging, setMerging] = useState<Theirs>();
  useSaveKey(session.save);
  const isSystem = stored?.scope === "system";
  const isWriter = may("skills.write");
  const isReadOnly = isSystem || !isWriter;
  const path = session.paths.includes(chosen) ? chosen : session.documentPath;
  const faults = allFaults(session, previewed.preview?.problems ?? [], previewed.preview?.slug ?? "");
  const title = address ? t("editor.title", { name: stored?.name ?? address }) : t("editor.title_new");
  const back = stored
    ? { href: `/skills/${encodeURIComponent(address)}`, label: stored.name }
    : { href: "/skills", label: t("menu.skills") };
  if (session.problem && !edits)
    return (
      <Page title={title} back={back}>
        <ProblemBox problem={session.problem} />
      </Page>
    );
  if (!address && !isWriter)
    return (
      <Page title={title} back={back}>
        <p>{t("editor.may_not")}</p>
      </Page>
    );
  if (!edits)
    return (
      <Page title={title} back={back} isWide>
        <Loading lines={8} />
      </Page>
    );
  const run = async () => {
    if (!isChanged || (await session.save())) setOpen("run");
  };
  const actions = (
    <>
      <span class="editor-state" role="status">
        {isChanged ? (
          <Badge tone="warn">{t(session.isKept ? "editor.unsaved" : "editor.unsaved_nowhere")}</Badge>
        ) : (
          stored && <Badge tone="good">{t("editor.all_saved")}</Badge>
        )}
      </span>
      {stored && may("skills.run") && (
        <Button onClick={run}>
          <Icon name="play" />
          {t(isChanged ? "editor.save_run" : "editor.run")}
        </Button>
      )}
      {isSystem && isWriter && (
        <a class="button" href={`/skills/new?from=${encodeURIComponent(address)}`}>
          {t("editor.copy")}
        </a>
      )}
      {!isReadOnly && (
        <Button
          look="primary"
          disabled={Boolean(stored) && !isChanged}
          onClick={session.save}
          title={t("editor.save_key")}
        >
          {t(stored ? "editor.save" : "editor.create")}
        </Button>
      )}
    </>
  );
  const show = (place: string, line: number, column: number) => {
    setChosen(place);
    setJump({ path: place, line, column });
  };
  return (
    <Page title={title} back={back} isWide actions={actions}>
      <Notices session={session} isReadOnly={isReadOnly} isSystem={isSystem} />
      {!stored && <ScopeChoice scope={session.scope} onChange={session.setScope} />}
      <div class="editor">
        <div class="editor-main">
          <div class="editor-bar">
            <FileChoice
              paths={session.paths}
              current={path}
              changed={session.changedPaths}
              faulty={new Set(faults.filter((one) => one.severity === "error").map((one) => one.place.path))}
              onChoose={setChosen}
            />
            {!isReadOnly && (
              <Button look="plain" onClick={() => setOpen("add")}>
                <Icon name="plus" />
                {t("editor.add")}
              </Button>
            )}
          </div>
          {merging && (
            <MergePanel
              theirs={plainLines((path === session.documentPath ? merging.stored.content : merging.texts[path]) ?? "")}
              mine={session.textOf(path) ?? ""}
              onChange={(text) => session.setText(path, text)}
              onDone={() => setMerging(undefined)}
            />
          )}
          <FileEditor
            key={path}
            session={session}
            path={path}
            faults={faults}
            previewed={previewed}
            isReadOnly={isReadOnly}
            jump={jump?.path === path ? jump : undefined}
            onRename={() => setOpen("rename")}
          />
        </div>
        <SidePanel
          edits={edits}
          address={stored?.address ?? ""}
          faults={faults}
          previewed={previewed}
          onJump={show}
          canFix={(fault) => !isReadOnly && fixOf(fault) !== undefined}
          onFix={(fault) => fixFault(session, fault)}
        />
      </div>
      {open === "add" && (
        <AddDialog
          paths={session.paths}
          onClose={() => setOpen("")}
          onFile={(added) => {
            session.setText(added, "");
            setChosen(added);
            setOpen("");
          }}
          onArtifact={(starter, name) => {
            const sidecar = session.paths.includes(SIDECAR) ? (session.textOf(SIDECAR) ?? "") : undefined;
            const made = startArtifact(starter, name, sidecar);
            if (!made) return say(t("editor.artifacts_inline"), "bad");
            session.setTexts(made.files);
            setChosen(made.open);
            setOpen("");
          }}
        />
      )}
      {open === "rename" && (
        <RenameDialog
          path={path}
          paths={session.paths}
          onClose={() => setOpen("")}
          onRename={(renamed) => {
            session.setTexts({ [renamed]: session.textOf(path) ?? "", [path]: null });
            setChosen(renamed);
            setOpen("");
          }}
        />
      )}
      {open === "run" && stored && <RunDialog skill={stored.address} title={stored.name} onClose={() => setOpen("")} />}
      {session.hasConflict && stored && (
        <ConflictDialog
          address={stored.address}
          before={plainLines(stored.content)}
          edits={edits}
          onClose={() => session.setConflict(false)}
          onMine={(theirs) => session.take(theirs, "mine")}
          onTheirs={(theirs) => session.take(theirs, "theirs")}
          onMerge={(theirs) => {
            setMerging(theirs);
            session.take(theirs, "merge");
          }}
          onCreate={session.createAgain}
        />
      )}
      <LeaveGuard isChanged={isChanged && !isReadOnly} onSave={session.save} onDiscard={session.discard} />
    </Page>
  );
}

function useSaveKey(save: () => Promise<boolean>) {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.key !== "s" || !(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey) return;
      event.preventDefault();
      if (!document.querySelector("dialog[open]") && may("skills.write")) save();
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  });
}

/** Return the problems of the server, and one of our own: a slug never changes. */
function allFaults(session: Session, problems: Fault[], slug: string): Fault[] {
  if (!session.stored || !slug || slug === session.stored.slug) return problems;
  const place = { path: session.documentPath, line: 1, column: 1, end_column: 1 };
  const message = t("editor.slug_changed", { before: session.stored.slug, after: slug });
  const hint = t("editor.slug_changed_hint");
  return [{ code: "slug-changed", severity: "error", message, hint, field: "slug", line: 1, place }, ...problems];
}

/** Return the field and the value that a problem suggests: "Write `name: my-skill`." */
function fixOf(fault: Fault): [FieldName, string] | undefined {
  const found = /^(?:Write|Add) `(name|slug): ([^`…]+)`/.exec(fault.hint);
  return found ? [found[1] as FieldName, found[2] as string] : undefined;
}

function fixFault(session: Session, fault: Fault) {
  const fix = fixOf(fault);
  if (fix) applyTexts(session, changeField(textsOf(session), ...fix));
}

function textsOf(session: Session): Texts {
  const sidecar = session.paths.includes(SIDECAR) ? (session.textOf(SIDECAR) ?? undefined) : undefined;
  return { content: session.edits?.content ?? "", sidecar };
}

function applyTexts(session: Session, texts: Texts) {
  const before = textsOf(session);
  if (texts.content !== before.content) session.setText(session.documentPath, texts.content);
  if (texts.sidecar !== undefined && texts.sidecar !== before.sidecar) session.setText(SIDECAR, texts.sidecar);
}

interface FileProps {
  session: Session;
  path: string;
  faults: Fault[];
  previewed: ReturnType<typeof usePreview>;
  isReadOnly: boolean;
  jump: Jump | undefined;
  onRename: () => void;
}

function FileEditor({ session, path, faults, previewed, isReadOnly, jump, onRename }: FileProps) {
  const text = session.textOf(path);
  const isDocument = path === session.documentPath;
  if (text === undefined) return <Loading />;
  if (text === null)
    return (
      <div class="editor-file">
        <p class="quiet">{t("editor.not_text", { path })}</p>
        {!isReadOnly && <RemoveButton session={session} path={path} />}
      </div>
    );
  // A single file with any name can be a skill, too.
  const language = isDocument && path.endsWith(".md") ? "skill" : languageOf(path);
  const own = faults.filter((fault) => fault.place.path === path);
  const local = jsonMarks(path, text);
  const marks = [
    ...own.map((fault) => ({
      line: fault.place.line,
      column: fault.place.column,
      endColumn: fault.place.end_column,
      severity: fault.severity,
      message: fault.message,
    })),
    ...(own.some((fault) => fault.severity === "error") ? [] : local),
  ];
  const code = (
    <Code
      label={t("editor.text_of", { path })}
      value={text}
      language={language}
      marks={marks}
      isReadOnly={isReadOnly}
      jump={jump}
      onChange={(value) => session.setText(path, value)}
    />
  );
  if (language === "skill")
    return (
      <div class="editor-columns">
        <FrontmatterForm
          texts={textsOf(session)}
          slug={previewed.preview?.slug ?? ""}
          isNew={!session.stored}
          isReadOnly={isReadOnly}
          problems={fieldProblems(faults)}
          onChange={(texts) => applyTexts(session, texts)}
        />
        {code}
      </div>
    );
  return (
    <div class="editor-file">
      {!isDocument && !isReadOnly && (
        <div class="editor-file-actions">
          <Button look="plain" onClick={onRename}>
            <Icon name="edit" />
            {t("editor.rename")}
          </Button>
          <RemoveButton session={session} path={path} />
        </div>
      )}
      <ArtifactPanel
        path={path}
        text={text}
        artifacts={previewed.preview?.artifacts ?? []}
        isReadOnly={isReadOnly}
        onText={(value) => session.setText(path, value)}
      />
      {code}
    </div>
  );
}

function RemoveButton({ session, path }: { session: Session; path: string }) {
  return (
    <Button look="plain" onClick={() => session.setText(path, null)}>
      <Icon name="trash" />
      {t("editor.remove")}
    </Button>
  );
}

/** Return the first error or warning of each field of the form. */
function fieldProblems(faults: Fault[]): Record<string, string> {
  const found: Record<string, string> = {};
  for (const fault of faults)
    if (fault.field && fault.severity === "error") found[fault.field] ??= [fault.message, fault.hint].join(" ");
  return found;
}

const SCOPES = ["org", "user", "workspace"] as const;
// The workspace of a server is a folder of its operator.
const MEMBER_SCOPES = ["org", "user"] as const;

function ScopeChoice({ scope, onChange }: { scope: string; onChange: (scope: string) => void }) {
  return (
    <div class="toolbar">
      <Choice
        label={t("editor.scope")}
        value={scope}
        onChange={onChange}
        options={(me.value?.organization_id ? MEMBER_SCOPES : SCOPES).map((value) => ({
          value,
          label: t(`editor.scope_${shownScope(value)}`),
        }))}
      />
      <span class="quiet">{t(`editor.about_scope_${shownScope(scope)}` as MessageKey)}</span>
    </div>
  );
}

function Notices({ session, isReadOnly, isSystem }: { session: Session; isReadOnly: boolean; isSystem: boolean }) {
  const { restored, refusal } = session;
  return (
    <>
      {isReadOnly && <p class="editor-notice">{t(isSystem ? "editor.system" : "editor.read_only")}</p>}
      {session.problem && <ProblemBox problem={session.problem} />}
      {restored && (
        <div class="editor-notice" role="status">
          <span>{t("editor.restored", { when: ago(restored.at) })}</span>
          <Button onClick={session.discard}>{t("editor.discard")}</Button>
          <Button look="plain" onClick={session.dismiss}>
            {t("editor.keep_draft")}
          </Button>
        </div>
      )}
      {session.isBehind && (
        <div class="editor-notice warn" role="alert">
          <span>{t("editor.behind")}</span>
          <Button onClick={() => session.setConflict(true)}>{t("editor.compare")}</Button>
        </div>
      )}
      {refusal?.isOffline ? (
        <div class="editor-notice warn" role="alert">
          <span>{t("editor.offline")}</span>
          <Button onClick={session.save}>{t("states.retry")}</Button>
        </div>
      ) : (
        refusal && <ProblemBox problem={refusal} />
      )}
    </>
  );
}
