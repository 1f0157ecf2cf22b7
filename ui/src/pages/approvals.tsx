import { useLocation } from "preact-iso";
import { api, ask } from "../api/client";
import { useLoad } from "../api/load";
import { t } from "../i18n";
import { Tabs } from "../parts/controls";
import { Page } from "../parts/page";
import { Shown } from "../parts/states";
import { may } from "../state";
import { Accepted } from "./approvals/accepted";
import { Found } from "./approvals/found";
import { History } from "./approvals/history";
import { Queue } from "./approvals/queue";
import "../style/approvals.css";

const TABS = ["waiting", "found", "accepted", "history"] as const;
type Tab = (typeof TABS)[number];

export default function ApprovalsPage() {
  const { query, route } = useLocation();
  const waiting = useLoad(
    (signal) => ask(api.GET("/api/v1/approvals", { params: { query: { state: "pending", limit: 200 } }, signal })),
    [],
    ["approval_required", "approval_resolved"],
  );
  const isApprover = may("approvals.resolve");
  const found = useLoad(
    async (signal) =>
      isApprover ? await ask(api.GET("/api/v1/trust/found", { params: { query: { limit: 200 } }, signal })) : undefined,
    [isApprover],
    ["approval_resolved", "source_synced"],
  );
  const shown = TABS.filter((name) => name !== "found" || isApprover);
  const tab = shown.find((name) => name === query.tab) ?? "waiting";
  const counts: Partial<Record<Tab, number>> = {
    waiting: waiting.data?.total ?? undefined,
    found: found.data?.total ?? undefined,
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
          <Shown of={waiting}>{(page) => <Queue items={page.items} onChange={waiting.reload} />}</Shown>
        )}
        {tab === "found" && (
          <Shown of={found}>{(page) => <Found items={page?.items ?? []} onChange={found.reload} />}</Shown>
        )}
        {tab === "accepted" && <Accepted onChange={found.reload} />}
        {tab === "history" && <History />}
      </Tabs>
    </Page>
  );
}
