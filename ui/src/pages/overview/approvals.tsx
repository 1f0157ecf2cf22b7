// What wants an answer: approvals that wait, and skills that were found and that nobody has accepted.
import { api, ask } from "../../api/client";
import { useLoad } from "../../api/load";
import { ago, count, moment } from "../../format";
import { t } from "../../i18n";
import { Shown } from "../../parts/states";
import { may } from "../../state";
import { Area } from "./parts";

const SHOWN = 5;

async function readWaiting(signal: AbortSignal) {
  const [approvals, found] = await Promise.all([
    ask(api.GET("/api/v1/approvals", { params: { query: { state: "pending", limit: SHOWN } }, signal })),
    // Who may not review skills has none to review.
    may("approvals.resolve")
      ? ask(api.GET("/api/v1/trust/found", { params: { query: { limit: SHOWN } }, signal }))
      : undefined,
  ]);
  return { approvals, found: found?.items ?? [], foundTotal: found?.total ?? 0 };
}

export function ApprovalsArea() {
  const waiting = useLoad(
    readWaiting,
    [],
    ["approval_required", "approval_resolved", "source_synced", "catalog_changed"],
  );
  const number = waiting.data?.approvals.total;
  return (
    <Area
      id="approvals"
      title={t("overview.approvals")}
      figure={number === undefined ? "…" : count(number + (waiting.data?.foundTotal ?? 0))}
      link={{ href: "/approvals", label: t("menu.approvals") }}
    >
      <Shown of={waiting}>
        {({ approvals, found, foundTotal }) => (
          <>
            {approvals.total + foundTotal === 0 && <p class="quiet">{t("overview.none_waiting")}</p>}
            <ul class="overview-list">
              {approvals.items.map((one) => (
                <li key={one.id}>
                  <span>
                    {one.requester}{" "}
                    {one.action === "enable"
                      ? t("overview.wants_enable")
                      : t("overview.wants_other", { action: one.action })}{" "}
                    <a href={`/approvals?id=${one.id}`}>{one.slug}</a>
                    {one.reason && <span class="quiet overview-reason">{one.reason}</span>}
                  </span>
                  <time class="quiet" dateTime={one.expires_at} title={moment(one.expires_at)}>
                    {t("overview.expires", { when: ago(one.expires_at) })}
                  </time>
                </li>
              ))}
            </ul>
            {approvals.total > SHOWN && (
              <p class="quiet">{t("overview.more_waiting", { count: approvals.total - SHOWN })}</p>
            )}
            {foundTotal > 0 && (
              <>
                <h3>{t("overview.found", { count: foundTotal })}</h3>
                <p class="overview-found">
                  {found.map((one, place) => (
                    <span key={one.slug}>
                      {place > 0 && ", "}
                      <a href={`/skills/${encodeURIComponent(one.slug)}`}>{one.slug}</a>
                    </span>
                  ))}
                  {foundTotal > found.length && " …"}
                </p>
                <p>
                  <a href="/approvals?tab=found">{t("overview.found_skill", { count: foundTotal })}</a>
                </p>
              </>
            )}
          </>
        )}
      </Shown>
    </Area>
  );
}
