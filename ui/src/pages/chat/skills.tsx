// The skills in the prompt of a conversation: how much of the budget they use, and which; enable and disable by hand.
import { useEffect, useRef, useState } from "preact/hooks";
import { api, ask, type Problem, type Shapes } from "../../api/client";
import { useLoad, useSettled } from "../../api/load";
import { count } from "../../format";
import { t } from "../../i18n";
import { Badge } from "../../parts/badge";
import { Button, Search } from "../../parts/controls";
import { Icon } from "../../parts/icons";
import { asProblem, Loading, ProblemBox } from "../../parts/states";
import { attempt } from "../../parts/toast";
import { ApprovalInChat } from "./approval";
import type { Talk } from "./talk";

type Session = Shapes["SessionShape"];
type Enabled = Session["enabled_skills"][number];

const FOUND = 12;
const NEARLY_FULL = 0.9;

interface PillProps {
  used: number;
  max: number;
  isOpen: boolean;
  onClick: () => void;
}

export function Pill({ used, max, isOpen, onClick }: PillProps) {
  const share = max ? Math.min(1, used / max) : 1;
  return (
    <button
      type="button"
      class={`chat-pill ${share >= NEARLY_FULL ? "full" : ""}`}
      aria-expanded={isOpen}
      aria-controls="chat-skills"
      onClick={onClick}
    >
      <span class="chat-meter" aria-hidden="true">
        <span style={{ width: `${share * 100}%` }} />
      </span>
      {t("chat.skills", { used: count(used), max: count(max) })}
    </button>
  );
}

/** What stands in the way of enabling a skill. */
interface Obstacle {
  slug: string;
  problem: Problem;
}

export function SkillsPanel({ talk, onClose }: { talk: Talk; onClose: () => void }) {
  const session = talk.session.value;
  const [query, setQuery] = useState("");
  const [obstacle, setObstacle] = useState<Obstacle | undefined>(undefined);
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  const path = { params: { path: { id: talk.id } } };
  const disable = async (slug: string) => {
    const changed = await attempt(
      ask(api.POST("/api/v1/sessions/{id}/disable", { ...path, body: { skill_slug: slug } })),
    );
    if (changed) talk.session.value = changed;
    return changed !== undefined;
  };
  const enable = async (slug: string) => {
    setObstacle(undefined);
    try {
      talk.session.value = await ask(
        api.POST("/api/v1/sessions/{id}/enable", { ...path, body: { skill_slug: slug, reason: t("chat.by_hand") } }),
      );
    } catch (error) {
      setObstacle({ slug, problem: asProblem(error) });
    }
  };
  const replace = async (out: string[], slug: string) => {
    for (const one of out) if (!(await disable(one))) return;
    await enable(slug);
  };
  return (
    <section
      id="chat-skills"
      class="chat-skills"
      aria-label={t("chat.skills_here")}
      onKeyDown={(event) => event.key === "Escape" && onClose()}
    >
      <header>
        <h2 ref={heading} tabIndex={-1}>
          {t("chat.skills_here")}
        </h2>
        <button type="button" class="icon-button" aria-label={t("states.close")} onClick={onClose}>
          <Icon name="close" />
        </button>
      </header>
      {!session && <Loading lines={2} />}
      {session && session.enabled_skills.length === 0 && <p class="quiet">{t("chat.no_skills")}</p>}
      <ul>
        {session?.enabled_skills.map((one) => (
          <EnabledRow key={one.slug} skill={one} max={session.budget_max_chars} onDisable={() => disable(one.slug)} />
        ))}
      </ul>
      {session && (
        <p class="quiet">
          {t("chat.budget_left", { left: count(Math.max(0, session.budget_max_chars - session.budget_used_chars)) })}
        </p>
      )}
      <h3>{t("chat.enable_more")}</h3>
      <Search label={t("chat.find_skill")} value={query} onInput={setQuery} />
      {obstacle && <ObstacleBox obstacle={obstacle} onReplace={replace} onRetry={() => enable(obstacle.slug)} />}
      {query.trim() && (
        <Found
          query={query}
          enabled={new Set(session?.enabled_skills.map((one) => one.slug))}
          left={(session?.budget_max_chars ?? 0) - (session?.budget_used_chars ?? 0)}
          onEnable={enable}
        />
      )}
    </section>
  );
}

function EnabledRow({ skill, max, onDisable }: { skill: Enabled; max: number; onDisable: () => Promise<unknown> }) {
  return (
    <li>
      <div class="chat-skill">
        <a href={`/skills/${encodeURIComponent(skill.slug)}`}>{skill.name || skill.slug}</a>
        <span class="quiet">
          {t("chat.chars", { chars: count(skill.content_length) })}
          {skill.source_type === "registry" && (
            <>
              {" "}
              <Badge tone="accent">{t("chat.from_registry")}</Badge>
            </>
          )}
        </span>
        <span class="chat-meter" aria-hidden="true">
          <span style={{ width: `${Math.min(100, (skill.content_length / Math.max(1, max)) * 100)}%` }} />
        </span>
      </div>
      <Button onClick={onDisable} aria-label={t("chat.disable_one", { skill: skill.name || skill.slug })}>
        {t("chat.disable")}
      </Button>
    </li>
  );
}

interface FoundProps {
  query: string;
  enabled: Set<string>;
  left: number;
  onEnable: (slug: string) => Promise<void>;
}

function Found({ query, enabled, left, onEnable }: FoundProps) {
  const asked = useSettled(query);
  const found = useLoad(
    (signal) => ask(api.POST("/api/v1/search", { body: { query: asked, limit: FOUND, explain: false }, signal })),
    [asked],
    ["catalog_changed"],
  );
  const items = found.data?.items.filter((one) => !enabled.has(one.slug));
  if (found.problem) return <ProblemBox problem={found.problem} onRetry={found.reload} />;
  if (!items) return <Loading lines={2} />;
  if (!items.length) return <p class="quiet">{t("chat.nothing_found")}</p>;
  return (
    <ul>
      {items.map((one) => (
        <li key={`${one.scope}:${one.slug}`}>
          <div class="chat-skill">
            <a href={`/skills/${encodeURIComponent(one.slug)}`}>{one.title || one.slug}</a>
            <span class={one.chars > left ? "chat-too-large" : "quiet"}>
              {t("chat.chars", { chars: count(one.chars) })}
            </span>
          </div>
          <Button
            onClick={() => onEnable(one.slug)}
            aria-label={t("chat.enable_one", { skill: one.title || one.slug })}
          >
            {t("chat.enable")}
          </Button>
        </li>
      ))}
    </ul>
  );
}

interface ObstacleProps {
  obstacle: Obstacle;
  onReplace: (out: string[], slug: string) => Promise<void>;
  onRetry: () => Promise<void>;
}

/** Say why a skill was not enabled, and offer what helps: other skills to disable, or the approval that it needs. */
function ObstacleBox({ obstacle, onReplace, onRetry }: ObstacleProps) {
  const { slug, problem } = obstacle;
  const approval = problem.details.approval_id;
  if (typeof approval === "string") return <ApprovalInChat id={approval} onAnswered={onRetry} />;
  const out = (problem.details.budget as { disable?: string[] } | undefined)?.disable ?? [];
  return (
    <>
      <ProblemBox problem={problem} />
      {out.length > 0 && (
        <Button onClick={() => onReplace(out, slug)}>{t("chat.replace", { out: out.join(", "), skill: slug })}</Button>
      )}
    </>
  );
}
