// Everything that is recorded about one skill: who answered for which content, and where it is used.
import { api, ask, type Shapes } from "../../api/client";
import { useLoad } from "../../api/load";
import { ago, count, moment } from "../../format";
import { t } from "../../i18n";
import { Badge } from "../../parts/badge";
import { Dialog } from "../../parts/dialog";
import { Shown } from "../../parts/states";
import { Fact } from "./entry";

const SHOWN_DECISIONS = 50;

export function SkillAccount({ slug, onClose }: { slug: string; onClose: () => void }) {
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
            <section class="scroll roomy" tabIndex={0} aria-label={t("audit.decisions")}>
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
