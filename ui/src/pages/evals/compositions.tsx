// Drafts of skills that a model writes: rounds, files, what was found, feedback, approval.

import { useState } from "preact/hooks";
import { api, ask, type Problem, type Shapes } from "../../api/client";
import { type Loaded, useLoad, usePages } from "../../api/load";
import { ago, bytes, cost } from "../../format";
import { t } from "../../i18n";
import { Badge } from "../../parts/badge";
import { Button, Field, Tabs } from "../../parts/controls";
import { Markdown } from "../../parts/markdown";
import { asProblem, Empty, More, ProblemBox, Shown, Words } from "../../parts/states";
import { say } from "../../parts/toast";
import { may } from "../../state";
import { type Finding, Findings } from "../browse/findings";

interface Round {
  number: number;
  feedback: string;
  model: string;
  cost_usd: number | null;
  digest: string;
  slug: string;
  title: string;
  description: string;
  note: string;
  kinds: string[];
  ok: boolean;
  problems: Finding[];
  findings: Finding[];
  triggers: { precision: number; recall: number; queries: number; collides_with: string | null } | null;
  created_at: string;
}

type Composition = Shapes["CompositionShape"] & {
  request: string;
  skill: string;
  updated_at: string;
  saved_as: string;
  current_round: number;
  round: Round | null;
};

const LONGEST = 30_000;

function asComposition(shape: Shapes["CompositionShape"]): Composition {
  return shape as Composition;
}

export function Compositions({ open, onOpen }: { open: string; onOpen: (id: string) => void }) {
  return open ? <Draft key={open} id={open} onClose={() => onOpen("")} /> : <List onOpen={onOpen} />;
}

function List({ onOpen }: { onOpen: (id: string) => void }) {
  const found = usePages(
    (query, signal) => ask(api.GET("/api/v1/compositions", { params: { query }, signal })),
    [],
    ["composition_changed"],
  );
  return (
    <Shown of={found}>
      {(page) =>
        page.items.length === 0 ? (
          <Empty title={t("evals.no_drafts")}>
            <p>{t("evals.no_drafts_hint")}</p>
          </Empty>
        ) : (
          <>
            <ul class="evals-list" aria-label={t("evals.tab_drafts")}>
              {page.items.map(asComposition).map((one) => (
                <li key={one.id} class="card">
                  <p class="evals-line">
                    <Button look="plain" onClick={() => onOpen(one.id)}>
                      {one.request.slice(0, 120)}
                    </Button>
                    <DraftState state={one.state} />
                    <span class="quiet">{t("evals.rounds", { count: one.current_round })}</span>
                    <span class="quiet">{ago(one.updated_at)}</span>
                    {one.saved_as && <SkillLink address={one.saved_as} />}
                  </p>
                </li>
              ))}
            </ul>
            <More of={found} />
          </>
        )
      }
    </Shown>
  );
}

function DraftState({ state }: { state: Composition["state"] }) {
  return (
    <Badge tone={state === "saved" ? "good" : state === "open" ? "accent" : "plain"}>{t(`evals.draft_${state}`)}</Badge>
  );
}

function SkillLink({ address }: { address: string }) {
  const slug = address.replace(/^[^:]*:/, "");
  return <a href={`/skills/${encodeURIComponent(slug)}`}>{slug}</a>;
}

function Draft({ id, onClose }: { id: string; onClose: () => void }) {
  const found = useLoad(
    async (signal) =>
      asComposition(await ask(api.GET("/api/v1/compositions/{id}", { params: { path: { id } }, signal }))),
    [id],
    ["composition_changed"],
  );
  return (
    <>
      <Button look="plain" onClick={onClose}>
        ← {t("evals.all_drafts")}
      </Button>
      <Shown of={found}>
        {(one) => (
          <article class="evals-draft">
            <h2>
              {one.round?.title || t("evals.no_title")} <DraftState state={one.state} />
            </h2>
            <p class="quiet">{one.request}</p>
            {one.round ? <RoundView one={one} round={one.round} /> : <p>{t("evals.no_round")}</p>}
            {one.state === "open" && may("skills.write") && <Actions one={one} loaded={found} onDone={onClose} />}
            {one.saved_as && (
              <p>
                {t("evals.saved_as")} <SkillLink address={one.saved_as} />
              </p>
            )}
          </article>
        )}
      </Shown>
    </>
  );
}

function RoundView({ one, round }: { one: Composition; round: Round }) {
  const [panel, setPanel] = useState<"files" | "diff" | "checks">("files");
  return (
    <section class="card" aria-label={t("evals.round", { number: round.number })}>
      <p class="evals-line">
        <strong>{t("evals.round", { number: round.number })}</strong>
        <Badge tone={round.ok ? "good" : "bad"}>{round.ok ? t("evals.round_ok") : t("evals.round_not_ok")}</Badge>
        <code>{round.slug}</code>
        <span class="quiet">{round.kinds.join(", ")}</span>
        {round.cost_usd !== null && <span class="quiet">{cost(round.cost_usd)}</span>}
      </p>
      <p>{round.description}</p>
      {round.feedback && <p class="quiet">{t("evals.after_feedback", { feedback: round.feedback })}</p>}
      {round.note && <p class="quiet">{round.note}</p>}
      <Tabs
        label={t("evals.round", { number: round.number })}
        value={panel}
        options={[
          { value: "files", label: t("browse.files") },
          { value: "diff", label: t("evals.what_changed") },
          { value: "checks", label: t("evals.checks"), count: round.problems.length + round.findings.length },
        ]}
        onChange={setPanel}
      >
        {panel === "checks" ? <RoundChecks round={round} /> : <Files id={one.id} round={round.number} panel={panel} />}
      </Tabs>
    </section>
  );
}

function RoundChecks({ round }: { round: Round }) {
  return (
    <>
      <h3>{t("browse.problems")}</h3>
      <Findings findings={round.problems} empty={t("evals.no_problems")} />
      <h3>{t("browse.findings")}</h3>
      <Findings findings={round.findings} />
      {round.triggers && (
        <p class="quiet">
          {t("evals.triggers", {
            precision: Math.round(round.triggers.precision * 100),
            recall: Math.round(round.triggers.recall * 100),
            count: round.triggers.queries,
          })}
        </p>
      )}
    </>
  );
}

function Files({ id, round, panel }: { id: string; round: number; panel: "files" | "diff" }) {
  const files = useLoad(
    (signal) => ask(api.GET("/api/v1/compositions/{id}/files", { params: { path: { id }, query: { round } }, signal })),
    [id, round],
  );
  return (
    <Shown of={files}>
      {(found) =>
        panel === "diff" ? (
          <pre tabIndex={0}>{found.diff.slice(0, LONGEST) || t("diff.same")}</pre>
        ) : (
          found.files.map((file) => (
            <details key={String(file.path)} open={file.path === "SKILL.md"}>
              <summary>
                <code>{String(file.path)}</code> <span class="quiet">{bytes(Number(file.size ?? 0))}</span>
              </summary>
              {file.path === "SKILL.md" ? (
                <div class="evals-text">
                  <Markdown
                    text={String(file.text ?? "")
                      .replace(/^---\n[\s\S]*?\n---\n/, "")
                      .slice(0, LONGEST)}
                  />
                </div>
              ) : (
                <pre tabIndex={0}>{String(file.text ?? "").slice(0, LONGEST)}</pre>
              )}
            </details>
          ))
        )
      }
    </Shown>
  );
}

function Actions({ one, loaded, onDone }: { one: Composition; loaded: Loaded<Composition>; onDone: () => void }) {
  const [feedback, setFeedback] = useState("");
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  const params = { path: { id: one.id } };
  const act = async (work: () => Promise<void>) => {
    setProblem(undefined);
    try {
      await work();
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  const refine = () =>
    act(async () => {
      const body = { feedback: feedback.trim(), model: "" };
      loaded.replace(asComposition(await ask(api.POST("/api/v1/compositions/{id}/refine", { params, body }))));
      setFeedback("");
    });
  const back = (number: number) =>
    act(async () => {
      const body = { round: number };
      loaded.replace(asComposition(await ask(api.POST("/api/v1/compositions/{id}/back", { params, body }))));
    });
  const approve = () =>
    act(async () => {
      const body = { digest: one.round?.digest ?? "", allow_collision: false };
      const saved = await ask(api.POST("/api/v1/compositions/{id}/approve", { params, body }));
      say(t("evals.saved", { slug: saved.slug }));
      loaded.reload();
    });
  const discard = () =>
    act(async () => {
      await ask(api.POST("/api/v1/compositions/{id}/discard", { params }));
      onDone();
    });
  const earlier = one.current_round > 1 ? one.current_round - 1 : undefined;
  return (
    <div class="evals-decision">
      {problem && <ProblemBox problem={problem} />}
      <Field label={t("evals.feedback")} hint={t("evals.feedback_hint")}>
        {(ids) => (
          <textarea {...ids} rows={2} value={feedback} onInput={(event) => setFeedback(event.currentTarget.value)} />
        )}
      </Field>
      <div class="actions">
        <Button onClick={refine} disabled={one.round !== null && !feedback.trim()}>
          {t("evals.refine")}
        </Button>
        {earlier && (
          <Button look="plain" onClick={() => back(earlier)}>
            {t("evals.back_to", { number: earlier })}
          </Button>
        )}
        {one.round && (
          <Button look="primary" disabled={!one.round.ok} onClick={approve}>
            {t("evals.approve")}
          </Button>
        )}
        <Button look="danger" onClick={discard}>
          {t("evals.discard")}
        </Button>
      </div>
      {one.round && !one.round.ok && (
        <p class="quiet">
          <Words text={t("evals.not_ok_hint")} />
        </p>
      )}
    </div>
  );
}
