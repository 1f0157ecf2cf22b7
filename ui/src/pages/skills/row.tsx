// One skill in the list.
import { count, fit } from "../../format";
import { t } from "../../i18n";
import { Badge } from "../../parts/badge";
import { SkillBadges, scopeLabel } from "../../parts/skill-badges";
import type { Row } from "./catalog";

export function SkillRow({ row }: { row: Row | undefined }) {
  if (!row)
    return (
      <div class="skills-row skills-waiting">
        <span />
      </div>
    );
  return (
    <div class={row.enabled ? "skills-row" : "skills-row off"}>
      <div class="skills-main">
        <p class="skills-name">
          <a href={`/skills/${encodeURIComponent(row.slug)}`}>{row.name}</a>
          <span class="skills-slug">{row.slug}</span>
        </p>
        <p class="skills-description">{row.description}</p>
        {row.match && (
          <p class="skills-why">
            {row.match.score !== null && (
              <Badge
                tone={row.match.decision === "offer" ? "good" : row.match.decision === "maybe" ? "accent" : "plain"}
              >
                {fit(row.match.score)}
              </Badge>
            )}
            <span>{row.match.why}</span>
          </p>
        )}
      </div>
      <div class="skills-side">
        <p class="skills-badges">
          <SkillBadges skill={row} />
          <Badge>{scopeLabel(row.scope)}</Badge>
        </p>
        <p class="skills-size" title={t("skills.size_title")}>
          {t("skills.chars", { count: row.content_length })}
          {row.version && <> · {row.version}</>}
          {row.tags.length > 0 && <span class="skills-tags"> · {row.tags.slice(0, 3).join(", ")}</span>}
          {row.tags.length > 3 && ` +${count(row.tags.length - 3)}`}
        </p>
      </div>
    </div>
  );
}
