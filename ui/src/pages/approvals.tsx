import { useLocation } from "preact-iso";
import { api, ask } from "../api/client";
import { usePages } from "../api/load";
import { t } from "../i18n";
import { Tabs } from "../parts/controls";
import { Page } from "../parts/page";
import { More, Shown } from "../parts/states";
import { may } from "../state";
import { Accepted } from "./approvals/accepted";
import { Found } from "./approvals/found";
import { History } from "./approvals/history";
import { Queue } from "./approvals/queue";
import "../style/approvals.css";

const TABS = ["waiting", "found", "accepted", "history"] as const;
type Tab = (typeof TABS)[number];

const NOTHING = { items: [], next_cursor: null, total: 0 };

export default function ApprovalsPage() {
  const { query, route } = useLocation();
  const waiting = usePages(
    (page, signal) => ask(api.GET("/api/v1/approvals", { params: { query: { ...page, state: "pending" } }, signal })),
    [],
    ["approval_required", "approval_resolved"],
  );
  const isApprover = may("approvals.resolve");
  const found = usePages(
    async (query, signal) =>
      isApprover ? await ask(api.GET("/api/v1/trust/found", { params: { query }, signal })) : NOTHING,
    [isApprover],
    ["approval_resolved", "source_synced", "catalog_changed"],
  );
  const shown = TABS.filter((name) => name !== "found" || isApprover);
  const tab = shown.find((name) => name === query.tab) ?? "waiting";
  const counts: Partial<Record<Tab, number>> = {
    waiting: waiting.data?.total ?? undefined,
    found: isApprover ? found.data?.total : undefined,
  };
  return (
    <Page title={t("menu.approvals")} lead={t("approvals.lead")} isWide>
      <Tabs
        label={t("menu.approvals")}
        value={tab}
        options={shown.map((name) => ({ value: name, label: t(`approvals.${name}`), count: counts[name] }))}
        onChange={(name) => route(name === "waiting" ? "/approvals" : `/approvals?tab=${name}`)}
      >
        {tab === "waiting" && (
          <Shown of={waiting}>
            {(page) => (
              <>
                <Queue items={page.items} onChange={waiting.reload} />
                {page.next_cursor && <More of={waiting} />}
              </>
            )}
          </Shown>
        )}
        {tab === "found" && (
          <Shown of={found}>
            {(page) => (
              <>
                <Found items={page.items} onChange={found.reload} />
                <More of={found} />
              </>
            )}
          </Shown>
        )}
        {tab === "accepted" && <Accepted onChange={found.reload} />}
        {tab === "history" && <History />}
      </Tabs>
    </Page>
  );
}
