// What a list says about a skill at one glance: its score, its findings, and what keeps it from being used.
import { percent } from "../format";
import { type MessageKey, t } from "../i18n";
import { me } from "../state";
import { Badge } from "./badge";

interface Facts {
  enabled: boolean;
  people_only?: boolean;
  trust: string;
  dangers: number | null;
  hides: readonly (string | { scope: string })[];
  score?: number | null;
}

const SCOPES = ["session", "workspace", "user", "org", "account", "system"];

/** Return the scope whose name is shown: a server without organizations stores in the account what others store in one. */
export function shownScope<Scope extends string>(scope: Scope): Scope | "account" {
  return scope === "org" && me.value && !me.value.organization_id ? "account" : scope;
}

/** Return the name of a scope for people. */
export function scopeLabel(scope: string): string {
  return SCOPES.includes(scope) ? t(`skills.scope_${shownScope(scope)}` as MessageKey) : scope;
}

export function SkillBadges({ skill }: { skill: Facts }) {
  const scopes = skill.hides.map((one) => scopeLabel(typeof one === "string" ? one : one.scope));
  return (
    <>
      {!skill.enabled && (
        <Badge tone="warn" title={t("skills.off_title")}>
          {t("skills.off")}
        </Badge>
      )}
      {skill.people_only && <Badge title={t("skills.people_only_title")}>{t("skills.people_only")}</Badge>}
      {skill.trust !== "local" && (
        <Badge tone="warn" title={t("skills.untrusted_title")}>
          {t("skills.untrusted")}
        </Badge>
      )}
      {!!skill.dangers && <Badge tone="bad">{t("skills.dangers", { count: skill.dangers })}</Badge>}
      {typeof skill.score === "number" && (
        <Badge tone={skill.score >= 0.8 ? "good" : skill.score >= 0.5 ? "warn" : "bad"} title={t("skills.score_title")}>
          {t("skills.score", { score: percent(skill.score) })}
        </Badge>
      )}
      {scopes.length > 0 && (
        <Badge tone="accent" title={t("skills.hides_title")}>
          {t("skills.hides", { scopes: scopes.join(", ") })}
        </Badge>
      )}
    </>
  );
}
