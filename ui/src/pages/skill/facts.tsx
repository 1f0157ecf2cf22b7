// Beside the text of a skill: where it comes from, what it takes, what it may reach, and what was found in it.
import { useState } from "preact/hooks";
import { api, ask, type Shapes } from "../../api/client";
import { type Loaded, useLoad } from "../../api/load";
import { ago, moment } from "../../format";
import { t } from "../../i18n";
import { Badge, type Tone } from "../../parts/badge";
import { ReachBadge } from "../../parts/reach-badge";
import { scopeLabel } from "../../parts/skill-badges";
import { Loading, ProblemBox, Words } from "../../parts/states";
import { type Artifacts, addressOf, pageOf, parameters, type Skill } from "./data";

export function Facts({ skill }: { skill: Skill }) {
  const settings = useLoad((signal) => ask(api.GET("/api/v1/settings", { signal })), []);
  const usage = useLoad(
    (signal) => ask(api.GET("/api/v1/skills/{id}/usage", { params: parameters(addressOf(skill)), signal })),
    [addressOf(skill)],
    ["skill_loaded"],
  );
  const most = Number(settings.data?.skills_max_prompt_chars ?? 0);
  return (
    <section class="card">
      <h2>{t("skill.about")}</h2>
      <Budget used={skill.content_length} most={most} />
      <dl class="facts">
        <dt>{t("skill.version")}</dt>
        <dd>{skill.version}</dd>
        {skill.author && (
          <>
            <dt>{t("skill.author")}</dt>
            <dd>{skill.author}</dd>
          </>
        )}
        <dt>{t("skill.source")}</dt>
        <dd>
          {/* Nothing is known about the source of files that lie in a folder, also after a person has accepted them. */}
          {skill.scope === "system"
            ? scopeLabel("system")
            : t(`skill.source_${skill.trust === "found" ? "found" : (skill.source_type as "manual")}`)}
          {skill.source_url && <span class="quiet"> {skill.source_url}</span>}
        </dd>
        {skill.updated_at && (
          <>
            <dt>{t("skill.changed")}</dt>
            <dd title={moment(skill.updated_at)}>{ago(skill.updated_at)}</dd>
          </>
        )}
        {usage.data && (
          <>
            <dt>{t("skill.loads")}</dt>
            <dd>
              {t("skill.times", { count: usage.data.loads })}
              {usage.data.last_loaded && <span class="quiet"> · {ago(usage.data.last_loaded)}</span>}
            </dd>
          </>
        )}
        {skill.hides.length > 0 && (
          <>
            <dt>{t("skill.hides")}</dt>
            <dd>
              {skill.hides.map((one) => (
                <a key={one.scope} href={pageOf(`${one.scope}:${skill.slug}`)}>
                  {scopeLabel(one.scope)}
                </a>
              ))}
            </dd>
          </>
        )}
        <dt>{t("skill.digest")}</dt>
        <dd>
          <code title={skill.digest}>{skill.digest.slice(0, 12)}</code>
        </dd>
      </dl>
    </section>
  );
}

/** What the skill takes of the prompt when it is enabled. */
function Budget({ used, most }: { used: number; most: number }) {
  if (!most) return null;
  const share = Math.min(1, used / most);
  return (
    <div class="skill-budget">
      <p>
        <span>{t("skill.budget")}</span>
        <span>{t("skill.budget_of", { used, most })}</span>
      </p>
      <div class={used > most ? "skill-bar over" : "skill-bar"} aria-hidden="true">
        <span style={{ width: `${share * 100}%` }} />
      </div>
      {used > most && <p class="skill-bad">{t("skill.budget_over")}</p>}
    </div>
  );
}

export function Reach({ found }: { found: Loaded<Artifacts> }) {
  const data = found.data;
  return (
    <section class="card">
      <h2>{t("skill.reach")}</h2>
      {found.problem && <ProblemBox problem={found.problem} />}
      {!data && !found.problem && <Loading lines={2} />}
      {data && (
        <>
          <p class="skill-badges">
            <ReachBadge reach={data.reach} />
            {data.sends_out && <Badge tone="warn">{t("skill.sends_out")}</Badge>}
          </p>
          {data.requests.length ? (
            <ul class="skill-list">
              {data.requests.map((request) => (
                <li key={request}>{request}</li>
              ))}
            </ul>
          ) : (
            <p class="quiet">{t("skill.asks_nothing")}</p>
          )}
        </>
      )}
    </section>
  );
}

const TONES: Record<string, Tone> = { danger: "bad", high: "bad", critical: "bad", warning: "warn", medium: "warn" };
const SHOWN = 5;

export function Findings({ found }: { found: Loaded<Shapes["FindingsShape"]> }) {
  const [isWhole, setWhole] = useState(false);
  const all = found.data?.findings ?? [];
  return (
    <section class="card">
      <h2>{t("skill.findings")}</h2>
      {found.problem && <ProblemBox problem={found.problem} />}
      {!found.data && !found.problem && <Loading lines={2} />}
      {found.data && !all.length && <p class="quiet">{t("skill.no_findings")}</p>}
      <ul class="skill-list skill-findings">
        {all.slice(0, isWhole ? undefined : SHOWN).map((one, number) => (
          <li key={number}>
            <p>
              <Badge tone={TONES[one.severity] ?? "plain"}>{one.severity}</Badge> <Words text={one.message} />
            </p>
            <p class="quiet">
              <code>
                {one.path}
                {one.line ? `:${one.line}` : ""}
              </code>
            </p>
            {one.excerpt && <pre>{one.excerpt.slice(0, 300)}</pre>}
            {one.hint && (
              <p class="quiet">
                <Words text={one.hint} />
              </p>
            )}
          </li>
        ))}
      </ul>
      {!isWhole && all.length > SHOWN && (
        <button type="button" class="button plain" onClick={() => setWhole(true)}>
          {t("skill.all_findings", { count: all.length })}
        </button>
      )}
    </section>
  );
}
