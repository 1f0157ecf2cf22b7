// What is there: skills by where they come from, what changed last, and what is dangerous.
import { api, ask } from "../../api/client";
import { useLoad } from "../../api/load";
import { ago, count, moment } from "../../format";
import { type MessageKey, t } from "../../i18n";
import { shownScope } from "../../parts/skill-badges";
import { Shown } from "../../parts/states";
import { may } from "../../state";
import { Area } from "./parts";

const NEWEST = 4;
const READ = 200;
const DANGERS = { sort: "dangers", descending: true, facets: true, limit: NEWEST } as const;
const CHANGES = ["catalog_changed", "source_synced", "approval_resolved"] as const;

export function SkillsArea() {
  const counts = useLoad(
    (signal) => ask(api.GET("/api/v1/catalog", { params: { query: DANGERS }, signal })),
    [],
    [...CHANGES],
  );
  const rows = useLoad(
    (signal) => ask(api.GET("/api/v1/skills", { params: { query: { limit: READ } }, signal })),
    [],
    [...CHANGES],
  );
  // Which of more skills changed last is not known: those that were read are the first by their slugs.
  const isWhole = (rows.data?.total ?? 0) <= READ;
  const own = isWhole ? (rows.data?.items ?? []).filter((row) => row.scope !== "system") : [];
  const newest = own
    .sort((one, other) => (other.updated_at ?? "").localeCompare(one.updated_at ?? ""))
    .slice(0, NEWEST);
  const dangerous = (counts.data?.items ?? []).filter((row) => (row.dangers ?? 0) > 0);
  const dangers = counts.data?.facets?.dangers ?? 0;
  return (
    <Area
      id="skills"
      title={t("overview.skills")}
      figure={counts.data ? count(counts.data.total) : "…"}
      link={{ href: "/skills", label: t("overview.all_skills") }}
    >
      <Shown of={counts}>
        {(found) => (
          <ul class="overview-scopes">
            {Object.entries(found.facets?.scopes ?? {})
              .filter(([, many]) => many > 0)
              .map(([scope, many]) => (
                <li key={scope}>
                  <strong>{count(many)}</strong> {t(`overview.scope_${shownScope(scope)}` as MessageKey)}
                </li>
              ))}
          </ul>
        )}
      </Shown>
      {dangerous.length > 0 && (
        <p class="overview-danger">
          {t("overview.findings", { count: dangers })}:{" "}
          {dangerous.map((row, number) => (
            <span key={row.address}>
              {number > 0 && ", "}
              <a href={`/skills/${encodeURIComponent(row.slug)}`}>{row.slug}</a>
            </span>
          ))}
          {dangers > dangerous.length && " …"}
        </p>
      )}
      {newest.length > 0 && (
        <>
          <h3>{t("overview.newest")}</h3>
          <ul class="overview-list">
            {newest.map((row) => (
              <li key={row.id}>
                <a href={`/skills/${encodeURIComponent(row.slug)}`}>{row.name}</a>
                {row.updated_at && (
                  <time class="quiet" dateTime={row.updated_at} title={moment(row.updated_at)}>
                    {ago(row.updated_at)}
                  </time>
                )}
              </li>
            ))}
          </ul>
        </>
      )}
      {may("skills.write") && (
        <p class="overview-action">
          <a class="button" href="/skills/new">
            {t("overview.new_skill")}
          </a>
        </p>
      )}
    </Area>
  );
}
