// The settings by subject. One that a newer server adds appears under "Other".
import { type MessageKey, t } from "../../i18n";

const NAMES = [
  "skills_max_prompt_chars",
  "disabled_skills",
  "agent_skills_live_for_all",
  "skill_enablement_policy",
  "skill_synced_policy",
  "approval_minutes",
  "approval_days",
  "skills_dynamic_search_enabled",
  "skills_dynamic_search_policy",
  "spend_per_session_usd",
  "spend_per_day_usd",
  "event_days",
  "audit_days",
  "session_days",
  "trace_days",
  "host_routes",
  "allowed_binaries",
  "skill_roots",
  "roles",
] as const;
type Name = (typeof NAMES)[number];

interface Group {
  title: MessageKey;
  text?: MessageKey;
  has: (name: string) => boolean;
}

const of =
  (...names: Name[]) =>
  (name: string) =>
    (names as string[]).includes(name);

export const GROUPS: Group[] = [
  {
    title: "settings.group_skills",
    has: of("skills_max_prompt_chars", "disabled_skills", "agent_skills_live_for_all"),
  },
  {
    title: "settings.group_approvals",
    has: of("skill_enablement_policy", "skill_synced_policy", "approval_minutes", "approval_days"),
  },
  { title: "settings.group_search", has: of("skills_dynamic_search_enabled", "skills_dynamic_search_policy") },
  { title: "settings.group_spend", has: of("spend_per_session_usd", "spend_per_day_usd") },
  { title: "settings.group_keep", has: of("event_days", "audit_days", "session_days", "trace_days") },
  {
    title: "settings.group_machine",
    text: "settings.group_machine_text",
    has: of("host_routes", "allowed_binaries", "skill_roots"),
  },
  { title: "settings.group_roles", has: of("roles") },
  // The variables of skills have a table of their own.
  { title: "settings.group_other", has: (name) => !isKnown(name) && name !== "skill_env" },
];

function isKnown(name: string): name is Name {
  return (NAMES as readonly string[]).includes(name);
}

export function nameOf(name: string): string {
  return isKnown(name) ? t(`settings.${name}`) : name;
}

export function helpOf(name: string): string {
  return isKnown(name) ? t(`settings.${name}_help`) : "";
}

/** Return all words about a setting, to search in. */
export function textsOf(name: string): string {
  return `${name} ${nameOf(name)} ${helpOf(name)}`;
}
