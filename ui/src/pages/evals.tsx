// Evaluations, optimisations and drafts: what was measured, what got better, and what is being written.

import { useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { t } from "../i18n";
import { Button, Tabs } from "../parts/controls";
import { Page } from "../parts/page";
import { may } from "../state";
import { Compositions } from "./evals/compositions";
import { Optimizations } from "./evals/optimizations";
import { Runs } from "./evals/runs";
import { StartComposition, StartEval, StartOptimization } from "./evals/start";
import "../style/evals.css";

const TABS = ["runs", "optimizations", "drafts"] as const;
type Tab = (typeof TABS)[number];

export default function EvalsPage() {
  const { query, route } = useLocation();
  const tab: Tab = TABS.find((one) => one === query.tab) ?? "runs";
  const [isStarting, setStarting] = useState(false);
  const mayStart = may("skills.run") && (tab !== "drafts" || may("skills.write"));
  const open = (next: Tab, more = "") => route(`/evals?tab=${next}${more}`);
  const close = () => setStarting(false);
  return (
    <Page
      title={t("menu.evals")}
      lead={t(`evals.lead_${tab}`)}
      actions={
        mayStart && (
          <Button look="primary" onClick={() => setStarting(true)}>
            {t(`evals.start_${tab}`)}
          </Button>
        )
      }
    >
      <Tabs
        label={t("menu.evals")}
        value={tab}
        options={TABS.map((one) => ({ value: one, label: t(`evals.tab_${one}`) }))}
        onChange={(next) => open(next)}
      >
        {tab === "runs" && <Runs />}
        {tab === "optimizations" && <Optimizations />}
        {tab === "drafts" && (
          <Compositions open={query.draft ?? ""} onOpen={(id) => open("drafts", id ? `&draft=${id}` : "")} />
        )}
      </Tabs>
      {isStarting && tab === "runs" && <StartEval skill={query.skill ?? ""} onClose={close} />}
      {isStarting && tab === "optimizations" && (
        <StartOptimization
          skill={query.skill ?? ""}
          onClose={close}
          onStarted={(id) => route(`/optimizations/${encodeURIComponent(id)}`)}
        />
      )}
      {isStarting && tab === "drafts" && (
        <StartComposition
          onClose={close}
          onStarted={(id) => {
            close();
            open("drafts", `&draft=${id}`);
          }}
        />
      )}
    </Page>
  );
}
