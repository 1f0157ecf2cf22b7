// What is there, what is it doing, what does it cost, and what needs an answer, at one glance.
import { useState } from "preact/hooks";
import { api, ask } from "../api/client";
import { useLoad } from "../api/load";
import { type MessageKey, t } from "../i18n";
import { Button } from "../parts/controls";
import { Page } from "../parts/page";
import { Words } from "../parts/states";
import { may } from "../state";
import { ActivityArea } from "./overview/activity";
import { ApprovalsArea } from "./overview/approvals";
import { CostArea } from "./overview/cost";
import { SkillsArea } from "./overview/skills";
import "../style/jobs.css";
import "../style/overview.css";

const HIDDEN = "first-steps-hidden";

export default function OverviewPage() {
  const runs = useLoad(
    (signal) => ask(api.GET("/api/v1/traces", { params: { query: { limit: 1 } }, signal })),
    [],
    ["run_started"],
  );
  return (
    <Page title={t("menu.overview")} lead={t("overview.lead")} isWide>
      {runs.data?.total === 0 && <FirstSteps />}
      <div class="overview-areas">
        <div>
          <ApprovalsArea />
          <ActivityArea />
        </div>
        <div>
          <CostArea />
          <SkillsArea />
        </div>
      </div>
    </Page>
  );
}

const STEPS: [name: "look" | "chat" | "write" | "add" | "connect", href: string, permission: string][] = [
  ["look", "/skills", "skills.read"],
  ["chat", "/chat", "skills.run"],
  ["write", "/skills/new", "skills.write"],
  ["add", "/browse", "skills.write"],
  ["connect", "", "skills.read"],
];

/** How to begin, as long as nothing has run. */
function FirstSteps() {
  const [isHidden, setHidden] = useState(localStorage.getItem(HIDDEN) === "yes");
  if (isHidden) return null;
  const hide = () => {
    localStorage.setItem(HIDDEN, "yes");
    setHidden(true);
  };
  return (
    <section class="card overview-first" aria-labelledby="overview-first">
      <header>
        <h2 id="overview-first">{t("overview.first_steps")}</h2>
        <Button look="plain" onClick={hide}>
          {t("overview.first_hide")}
        </Button>
      </header>
      <ol>
        {STEPS.filter(([, , permission]) => may(permission)).map(([name, href]) => {
          const title = t(`overview.step_${name}` as MessageKey);
          return (
            <li key={name}>
              {href ? <a href={href}>{title}</a> : <strong>{title}</strong>}
              <p class="quiet">
                <Words text={t(`overview.step_${name}_text` as MessageKey)} />
              </p>
            </li>
          );
        })}
      </ol>
    </section>
  );
}
