// The places that skills are copied from: their state, adding and changing them, and what a sync brought.

import { useState } from "preact/hooks";
import { api, ask, type Problem, type Shapes } from "../api/client";
import { useLoad, usePages } from "../api/load";
import { ago, moment } from "../format";
import { t } from "../i18n";
import { Badge, type Tone } from "../parts/badge";
import { Button } from "../parts/controls";
import { Dialog } from "../parts/dialog";
import { Icon } from "../parts/icons";
import { Page } from "../parts/page";
import { asProblem, Empty, More, ProblemBox, Shown, Words } from "../parts/states";
import { attempt, say } from "../parts/toast";
import { may } from "../state";
import { SourceForm } from "./sources/form";
import { counted, kindName, Result } from "./sources/result";
import "../style/browse.css";
import "../style/sources.css";

type Source = Shapes["SourceShape"];
type Sync = Shapes["SyncShape"];

export default function SourcesPage() {
  const sources = usePages(
    (query, signal) => ask(api.GET("/api/v1/skills/sources", { params: { query }, signal })),
    [],
    ["source_synced"],
  );
  // A source that is being changed, `new` for one that does not exist yet.
  const [edited, setEdited] = useState<Source | "new" | undefined>(undefined);
  const [deleted, setDeleted] = useState<Source | undefined>(undefined);
  const [results, setResults] = useState<Record<string, Sync>>({});
  const stale = sources.data?.items.filter((source) => source.stale && source.enabled).length ?? 0;
  const keep = (found: Sync[]) => {
    setResults((last) => ({ ...last, ...Object.fromEntries(found.map((one) => [one.source_id, one])) }));
    sources.reload();
  };
  const sync = async (id: string, take: string[] = []) => {
    const result = await attempt(
      ask(api.POST("/api/v1/skills/sources/{id}/sync", { params: { path: { id } }, body: { take } })),
    );
    if (result) keep([result]);
  };
  const preview = async (id: string) => {
    const result = await attempt(ask(api.GET("/api/v1/skills/sources/{id}/preview", { params: { path: { id } } })));
    if (result) keep([result]);
  };
  const syncStale = async () => {
    const found = await attempt(ask(api.POST("/api/v1/skills/sources/sync-stale")));
    if (!found) return;
    keep(found.items);
    say(t("sources.synced", { count: found.items.length }));
  };
  const mayWrite = may("skills.write");
  return (
    <Page
      title={t("menu.sources")}
      lead={t("sources.lead")}
      actions={
        mayWrite && (
          <>
            {stale > 0 && <Button onClick={syncStale}>{t("sources.sync_stale", { count: stale })}</Button>}
            <Button look="primary" onClick={() => setEdited("new")}>
              <Icon name="plus" />
              {t("sources.add")}
            </Button>
          </>
        )
      }
    >
      <Shown of={sources}>
        {(page) =>
          page.items.length === 0 ? (
            <Empty title={t("sources.none")}>
              <p>{t("sources.none_hint")}</p>
            </Empty>
          ) : (
            <>
              <ul class="sources-list">
                {page.items.map((source) => (
                  <li key={source.id}>
                    <Row
                      source={source}
                      result={results[source.id]}
                      mayWrite={mayWrite}
                      onSync={(take) => sync(source.id, take)}
                      onPreview={() => preview(source.id)}
                      onEdit={() => setEdited(source)}
                      onDelete={() => setDeleted(source)}
                      onClose={() => setResults(({ [source.id]: _, ...others }) => others)}
                    />
                  </li>
                ))}
              </ul>
              <More of={sources} />
            </>
          )
        }
      </Shown>
      {edited && (
        <SourceForm
          source={edited === "new" ? undefined : edited}
          onClose={() => setEdited(undefined)}
          onSaved={(source) => {
            setEdited(undefined);
            sources.reload();
            if (edited === "new") sync(source.id);
          }}
        />
      )}
      {deleted && (
        <DeleteSource
          source={deleted}
          onClose={() => setDeleted(undefined)}
          onDeleted={() => {
            setDeleted(undefined);
            sources.reload();
          }}
        />
      )}
    </Page>
  );
}

interface RowProps {
  source: Source;
  result: Sync | undefined;
  mayWrite: boolean;
  onSync: (take?: string[]) => Promise<void>;
  onPreview: () => Promise<void>;
  onEdit: () => void;
  onDelete: () => void;
  onClose: () => void;
}

function Row({ source, result, mayWrite, onSync, onPreview, onEdit, onDelete, onClose }: RowProps) {
  const [isSyncing, setSyncing] = useState(false);
  const run = async (take?: string[]) => {
    setSyncing(true);
    try {
      await onSync(take);
    } finally {
      setSyncing(false);
    }
  };
  const isBusy = isSyncing || source.syncing;
  return (
    <article class="card sources-card">
      <header>
        <div>
          <h2>{source.name}</h2>
          <p class="quiet sources-place">
            {kindName(source.source_type)} · {place(source)}
          </p>
        </div>
        <p class="sources-marks">
          <Status source={source} isBusy={isBusy} />
          {!source.enabled && <Badge>{t("sources.disabled")}</Badge>}
          {source.stale && source.enabled && <Badge tone="warn">{t("sources.stale")}</Badge>}
          <Badge>{source.scope === "user" ? t("sources.mine") : t("sources.org")}</Badge>
        </p>
      </header>
      <p class="quiet sources-when">
        {source.last_sync_at ? (
          <span title={moment(source.last_sync_at)}>{t("sources.last", { when: ago(source.last_sync_at) })}</span>
        ) : (
          t("sources.never")
        )}
        {counted(source.counts) && ` · ${counted(source.counts)}`}
        {` · ${policy(source)}`}
      </p>
      {source.last_sync_error && !isBusy && (
        <p class="sources-error">
          <Words text={source.last_sync_error} />
        </p>
      )}
      {isBusy && (
        <p role="status" class="sources-progress">
          {t("sources.working")}
        </p>
      )}
      {result && !isBusy && <Result result={result} onTake={mayWrite ? run : undefined} onClose={onClose} />}
      {mayWrite && (
        <div class="actions">
          <Button onClick={() => run()} disabled={source.syncing || !source.enabled}>
            <Icon name="sync" />
            {t("sources.sync")}
          </Button>
          <Button look="plain" onClick={onPreview} disabled={isBusy}>
            {t("sources.preview")}
          </Button>
          <Button look="plain" onClick={onEdit}>
            {t("sources.edit")}
          </Button>
          <Button look="plain" onClick={onDelete}>
            {t("sources.delete")}
          </Button>
        </div>
      )}
      {source.last_sync_at && <Skills id={source.id} />}
    </article>
  );
}

/** The skills that came from a source, loaded when somebody wants to see them. */
function Skills({ id }: { id: string }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details class="sources-skills" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{t("sources.skills")}</summary>
      {isOpen && <SkillNames id={id} />}
    </details>
  );
}

function SkillNames({ id }: { id: string }) {
  const skills = usePages(
    (page, signal) => ask(api.GET("/api/v1/skills", { params: { query: { ...page, source_id: id } }, signal })),
    [id],
    ["source_synced"],
  );
  return (
    <Shown of={skills}>
      {(page) =>
        page.items.length === 0 ? (
          <p class="quiet">{t("sources.no_skills")}</p>
        ) : (
          <>
            <ul>
              {page.items.map((skill) => (
                <li key={skill.id}>
                  <a href={`/skills/${encodeURIComponent(skill.slug)}`}>{skill.name}</a>{" "}
                  <span class="quiet">{skill.description.slice(0, 120)}</span>
                </li>
              ))}
            </ul>
            <More of={skills} />
          </>
        )
      }
    </Shown>
  );
}

const TONES: Record<string, Tone> = { ok: "good", partial: "warn", failed: "bad" };

function Status({ source, isBusy }: { source: Source; isBusy: boolean }) {
  if (isBusy) return <Badge tone="accent">{t("sources.syncing")}</Badge>;
  const status = source.last_sync_status;
  if (!status) return <Badge>{t("sources.new")}</Badge>;
  return <Badge tone={TONES[status] ?? "plain"}>{t(`sources.status_${status}`)}</Badge>;
}

function place(source: Source): string {
  const { repo, ref, path, url, base_url } = source.config as Record<string, string | undefined>;
  return [repo ?? url ?? base_url ?? "", ref && `@${ref}`, path && `/${path}`].filter(Boolean).join(" ");
}

function policy(source: Source): string {
  if (source.config.sync_policy !== "auto") return t("sources.by_hand");
  return t("sources.every", { count: Number(source.config.sync_interval_minutes ?? 360) });
}

interface DeleteProps {
  source: Shapes["SourceShape"];
  onClose: () => void;
  onDeleted: () => void;
}

/** Delete a source, and say what happens to its skills. */
function DeleteSource({ source, onClose, onDeleted }: DeleteProps) {
  const [isWithSkills, setWithSkills] = useState(false);
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  const skills = useLoad(
    (signal) => ask(api.GET("/api/v1/skills", { params: { query: { source_id: source.id, limit: 1 } }, signal })),
    [source.id],
  );
  const remove = async () => {
    setProblem(undefined);
    try {
      await ask(
        api.DELETE("/api/v1/skills/sources/{id}", {
          params: { path: { id: source.id }, query: { remove_skills: isWithSkills } },
        }),
      );
      say(t("sources.deleted", { name: source.name }));
      onDeleted();
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  const count = skills.data?.total ?? 0;
  return (
    <Dialog
      title={t("sources.delete_title", { name: source.name })}
      onClose={onClose}
      answer={{ text: t("sources.delete"), look: "danger", onClick: remove }}
    >
      {problem && <ProblemBox problem={problem} />}
      {count > 0 ? (
        <>
          <p>{t("sources.has_skills", { count })}</p>
          <label class="browse-read">
            <input
              type="checkbox"
              checked={isWithSkills}
              onChange={(event) => setWithSkills(event.currentTarget.checked)}
            />{" "}
            {t("sources.with_skills")}
          </label>
          <p class="quiet">{t("sources.edited_stay")}</p>
        </>
      ) : (
        <p>{t("sources.no_skills")}</p>
      )}
    </Dialog>
  );
}
