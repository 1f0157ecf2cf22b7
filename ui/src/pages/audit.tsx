import { useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { api, ask, type Shapes } from "../api/client";
import { useLoad, usePages, useSettled } from "../api/load";
import { ago, count, moment } from "../format";
import { named, t } from "../i18n";
import { Badge } from "../parts/badge";
import { Button, Field } from "../parts/controls";
import { Dialog } from "../parts/dialog";
import { Icon } from "../parts/icons";
import { Page } from "../parts/page";
import { Empty, More, Shown } from "../parts/states";
import { attempt } from "../parts/toast";
import { may } from "../state";
import { Entry, Fact } from "./audit/entry";
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

/** Check the chain of the audit, and say clearly what the result is. */
function Verify() {
  const [verdict, setVerdict] = useState<Shapes["AuditVerdictShape"]>();
  const check = async () => {
    setVerdict(undefined);
    setVerdict(await attempt(ask(api.GET("/api/v1/audit/verify"))));
  };
  return (
    <section class="audit-verify" aria-label={t("audit.verify")}>
      <Button onClick={check}>
        <Icon name="shield" />
        {t("audit.verify")}
      </Button>
      <div role="status">
        {verdict && (
          <p class={verdict.ok ? "audit-verdict good" : "audit-verdict bad"}>
            <strong>
              {verdict.ok
                ? t("audit.intact", { count: verdict.rows })
                : t("audit.broken", { number: verdict.first_bad ?? "?" })}
            </strong>{" "}
            {verdict.problem}
            {verdict.ok && verdict.head && (
              <>
                <br />
                {t("audit.head")} <code class="digest">{verdict.head}</code>
              </>
            )}
          </p>
        )}
      </div>
    </section>
  );
}

const SHOWN_DECISIONS = 50;

/** Show everything that is recorded about one skill: who answered for which content, and where it is used. */
function SkillAccount({ slug, onClose }: { slug: string; onClose: () => void }) {
  const account = useLoad(
    (signal) => ask(api.GET("/api/v1/audit/skills/{slug}", { params: { path: { slug } }, signal })),
    [slug],
    ["approval_resolved", "skills_state_changed"],
  );
  return (
    <Dialog title={t("audit.account_of", { name: slug })} onClose={onClose} isWide>
      <Shown of={account}>
        {(found) => (
          <>
            <dl class="facts">
              <Fact name={t("audit.trust")} value={found.trust || t("audit.gone")} />
              {found.standing && <Fact name={t("audit.standing")} value={found.standing} />}
              {found.location && <Fact name={t("audit.location")} value={found.location} />}
            </dl>
            <h3>{t("audit.contents")}</h3>
            {found.contents.length === 0 && <p class="quiet">{t("audit.no_answers")}</p>}
            {found.contents.map((one) => (
              <Content key={one.digest} content={one} />
            ))}
            <h3>{t("audit.decisions")}</h3>
            <section class="scroll" tabIndex={0} aria-label={t("audit.decisions")}>
              <table>
                <tbody>
                  {found.decisions.slice(-SHOWN_DECISIONS).map((row) => (
                    <tr key={row.number}>
                      <td class="quiet">{row.number}</td>
                      <td>
                        <time title={moment(row.at)}>{ago(row.at)}</time>
                      </td>
                      <td>{row.actor}</td>
                      <td>{row.action}</td>
                      <td>
                        <Badge>{row.outcome}</Badge>
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </section>
          </>
        )}
      </Shown>
    </Dialog>
  );
}

function Content({ content }: { content: Shapes["ContentShape"] }) {
  return (
    <section class="audit-content" aria-label={content.digest.slice(0, 12)}>
      <p>
        <code class="digest">{content.digest}</code>{" "}
        {content.current && <Badge tone="good">{t("audit.current")}</Badge>}
      </p>
      <ul>
        {content.answers.map((one) => (
          <li key={`${one.at} ${one.how}`}>
            <strong>{one.by}</strong> {one.how} <time title={moment(one.at)}>{ago(one.at)}</time>{" "}
            <Badge tone={one.state === "in force" ? "good" : "plain"}>{one.state}</Badge>
            <br />
            <span class="quiet">{[one.channel, one.proof].filter(Boolean).join(" · ")}</span>
            {one.shown && (
              <details>
                <summary>
                  {t("audit.shown")} {one.shown_ok === false && <Badge tone="bad">{t("audit.shown_other")}</Badge>}
                </summary>
                <pre tabIndex={0}>{one.shown}</pre>
              </details>
            )}
          </li>
        ))}
      </ul>
      <p class="quiet">
        {t("audit.used", { prompts: count(content.prompts.length), runs: count(content.runs.length) })}
      </p>
    </section>
  );
}
