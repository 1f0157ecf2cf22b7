import { useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { api, ask } from "../api/client";
import { usePages } from "../api/load";
import { t } from "../i18n";
import { Tabs } from "../parts/controls";
import { Page } from "../parts/page";
import { More, Shown } from "../parts/states";
import { may, me } from "../state";
import { Account } from "./people/account";
import { Members } from "./people/members";
import { Organizations } from "./people/organizations";
import { Tokens } from "./people/tokens";
import "../style/people.css";

const TABS = ["account", "tokens", "members", "organizations"] as const;

export default function PeoplePage() {
  const { query, route } = useLocation();
  // The operator of a server belongs to no organization, and manages all of them.
  const isOperator = may("admin") && me.value?.organization_id === "";
  const [organization, setOrganization] = useState("");
  const organizations = usePages(
    (query, signal) => ask(api.GET("/api/v1/organizations", { params: { query }, signal })),
    [],
  );
  const shown = TABS.filter((name) => (name === "organizations" ? isOperator : name !== "members" || may("admin")));
  const tab = shown.find((name) => name === query.tab) ?? "account";
  return (
    <Page title={t("menu.people")} lead={t("people.lead")}>
      <Tabs
        label={t("menu.people")}
        value={tab}
        options={shown.map((name) => ({ value: name, label: t(`people.${name}`) }))}
        onChange={(name) => route(name === "account" ? "/people" : `/people?tab=${name}`)}
      >
        {tab === "account" && <Account />}
        {tab === "tokens" && <Tokens />}
        {tab === "members" && (
          <Shown of={organizations}>
            {({ items }) => {
              const active = items.filter((one) => !one.deactivated_at);
              const chosen = isOperator ? organization || active[0]?.id || "" : "";
              return (
                <Members
                  organizations={isOperator ? active.map((one) => one.id) : []}
                  isOperator={isOperator}
                  organization={chosen}
                  onChoose={setOrganization}
                />
              );
            }}
          </Shown>
        )}
        {tab === "organizations" && (
          <Shown of={organizations}>
            {({ items }) => (
              <>
                <Organizations
                  items={items}
                  onChange={organizations.reload}
                  onOpen={(id) => {
                    setOrganization(id);
                    route("/people?tab=members");
                  }}
                />
                <More of={organizations} />
              </>
            )}
          </Shown>
        )}
      </Tabs>
    </Page>
  );
}
