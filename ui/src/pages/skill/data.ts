// What all parts of the page of a skill share.
import { api, ask, type Shapes } from "../../api/client";
import { t } from "../../i18n";
import { attempt, say } from "../../parts/toast";

export type Skill = Shapes["WholeSkillShape"];
export type Artifacts = Shapes["ArtifactsShape"];
export type Version = Shapes["VersionShape"];

/** Return `scope:slug`, which stays the same skill if another one with its slug comes or goes. */
export const addressOf = (skill: Pick<Skill, "scope" | "slug">) => `${skill.scope}:${skill.slug}`;

/** Return the address of the page of a skill. */
export const pageOf = (id: string) => `/skills/${encodeURIComponent(id)}`;

export const parameters = (id: string) => ({ path: { id } });

/** Return a skill. */
export function loadSkill(id: string, signal: AbortSignal): Promise<Skill> {
  return ask(api.GET("/api/v1/skills/{id}", { params: parameters(id), signal }));
}

/** Return the document without its frontmatter. */
export function bodyOf(document: string): string {
  return document.replace(/^---\r?\n[\s\S]*?\r?\n---\r?\n?/, "");
}

/** Switch a skill on or off for the organization. Return it as it is then. */
export async function switchSkill(skill: Skill, enabled: boolean): Promise<Skill | undefined> {
  const done = await attempt(
    ask(
      api.PUT("/api/v1/skills/{id}", {
        params: parameters(addressOf(skill)),
        body: { enabled },
        headers: { "If-Match": `"${skill.digest}"` },
      }),
    ),
  );
  if (done) say(t(enabled ? "skill.switched_on" : "skill.switched_off", { name: skill.name }));
  return done;
}
