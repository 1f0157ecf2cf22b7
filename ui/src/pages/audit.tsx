import { useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { api, ask } from "../api/client";
import { usePages, useSettled } from "../api/load";
import { named, t } from "../i18n";
import { Field } from "../parts/controls";
import { Page } from "../parts/page";
import { Empty, More, Shown } from "../parts/states";
import { may } from "../state";
import { SkillAccount } from "./audit/account";
import { Entry } from "./audit/entry";
import { Verify } from "./audit/verify";
import "../style/audit.css";

const DAYS = ["", "1", "7", "30", "365"] as const;
const ACTIONS = [
  "approve",
  "call_tool",
  "configure",
  "connect",
  "delete",
  "enable",
  "fetch_live",
  "install",
  "load",
  "load_script",
  "member",
  "organization",
  "prune",
  "read_tool",
  "run",
  "sign-in",
  "sync_source",
  "token",
  "trust",
  "update",
];

interface Filter {
  actor: string;
  action: string;
  skill: string;
  days: string;
}

export default function AuditPage() {
  const { query, route } = useLocation();
  const [filter, setFilter] = useState<Filter>({ actor: "", action: "", skill: query.skill ?? "", days: "" });
  const settled = useSettled(filter);
  if (!may("admin"))
    return (
      <Page title={t("menu.audit")}>
        <Empty title={t("audit.refused")}>
          <p>{t("audit.refused_text")}</p>
        </Empty>
      </Page>
    );
  const write = (part: Partial<Filter>) => setFilter({ ...filter, ...part });
  return (
    <Page title={t("menu.audit")} lead={t("audit.lead")}>
      <Verify />
      <div class="audit-filter">
        <Field label={t("audit.actor")}>
          {(ids) => (
            <input {...ids} value={filter.actor} onInput={(event) => write({ actor: event.currentTarget.value })} />
          )}
        </Field>
        <Field label={t("audit.action")}>
          {(ids) => (
            <select {...ids} value={filter.action} onChange={(event) => write({ action: event.currentTarget.value })}>
              <option value="">{t("audit.any")}</option>
              {ACTIONS.map((one) => (
                <option key={one} value={one}>
                  {named("audit.do_", one)}
                </option>
              ))}
            </select>
          )}
        </Field>
        <Field label={t("audit.skill")}>
          {(ids) => (
            <input {...ids} value={filter.skill} onInput={(event) => write({ skill: event.currentTarget.value })} />
          )}
        </Field>
        <Field label={t("audit.time")}>
          {(ids) => (
            <select {...ids} value={filter.days} onChange={(event) => write({ days: event.currentTarget.value })}>
              {DAYS.map((one) => (
                <option key={one} value={one}>
                  {one ? t("audit.days", { count: Number(one) }) : t("audit.any")}
                </option>
              ))}
            </select>
          )}
        </Field>
      </div>
      <Entries filter={settled} onAccount={(slug) => route(`/audit?account=${encodeURIComponent(slug)}`)} />
      {query.account && <SkillAccount slug={query.account} onClose={() => route("/audit")} />}
    </Page>
  );
}

function Entries({ filter, onAccount }: { filter: Filter; onAccount: (slug: string) => void }) {
  const entries = usePages(
    (page, signal) => {
      const { days, skill, ...rest } = filter;
      const since = days ? new Date(Date.now() - Number(days) * 86_400_000).toISOString() : "";
      return ask(
        api.GET("/api/v1/audit/newest", { params: { query: { ...rest, ...page, slug: skill, since } }, signal }),
      );
    },
    [filter],
    ["approval_required", "approval_resolved", "skills_state_changed", "run_finished", "source_synced"],
  );
  return (
    <Shown of={entries}>
      {({ items }) =>
        items.length === 0 ? (
          <Empty title={t(Object.values(filter).some(Boolean) ? "audit.no_match" : "audit.none")} />
        ) : (
          <>
            <ol class="audit-list" aria-label={t("audit.entries")}>
              {items.map((row) => (
                <Entry key={row.number} row={row} onAccount={onAccount} />
              ))}
            </ol>
            <More of={entries} />
          </>
        )
      }
    </Shown>
  );
}
