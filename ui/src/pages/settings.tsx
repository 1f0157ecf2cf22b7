import { useState } from "preact/hooks";
import { api, ask } from "../api/client";
import { useLoad, usePages } from "../api/load";
import { chooseLanguage, type Language, language, t } from "../i18n";
import { Badge } from "../parts/badge";
import { Choice, Search } from "../parts/controls";
import { Page } from "../parts/page";
import { Empty, More, Shown, Words } from "../parts/states";
import { Table } from "../parts/table";
import { chooseTheme, may, theme } from "../state";
import { EnvGrants } from "./settings/env";
import { GROUPS, nameOf, textsOf } from "./settings/groups";
import { Memory } from "./settings/memory";
import { SettingRow } from "./settings/row";
import "../style/settings.css";

export default function SettingsPage() {
  const [text, setText] = useState("");
  const settings = useLoad((signal) => ask(api.GET("/api/v1/settings/details", { signal })), [], ["settings_changed"]);
  const fits = (name: string) => textsOf(name).toLowerCase().includes(text.trim().toLowerCase());
  return (
    <Page title={t("menu.settings")} lead={t(may("admin") ? "settings.lead" : "settings.lead_reader")}>
      <Appearance />
      <div class="toolbar">
        <Search label={t("settings.search")} value={text} onInput={setText} />
      </div>
      <Shown of={settings}>
        {({ items }) => {
          const groups = GROUPS.map((group) => ({
            ...group,
            found: items.filter((one) => group.has(one.name) && fits(one.name)),
          })).filter((group) => group.found.length > 0);
          if (groups.length === 0) return <Empty title={t("settings.no_match")} />;
          return groups.map((group) => (
            <section key={group.title} class="card settings-group">
              <h2>{t(group.title)}</h2>
              {group.text && <p class="quiet">{t(group.text)}</p>}
              {group.found.map((one) => (
                <SettingRow key={one.name} setting={one} label={nameOf(one.name)} onChange={settings.reload} />
              ))}
            </section>
          ));
        }}
      </Shown>
      {!text && <Memory />}
      {!text && <EnvGrants />}
      {!text && <Connectors />}
    </Page>
  );
}

/** What only this browser remembers. */
function Appearance() {
  return (
    <section class="card settings-group">
      <h2>{t("settings.appearance")}</h2>
      <p class="quiet">{t("settings.appearance_text")}</p>
      <div class="settings-looks">
        <div>
          <p class="settings-label">{t("settings.theme")}</p>
          <Choice
            label={t("settings.theme")}
            value={theme.value}
            options={[
              { value: "auto", label: t("settings.theme_auto") },
              { value: "light", label: t("settings.theme_light") },
              { value: "dark", label: t("settings.theme_dark") },
            ]}
            onChange={chooseTheme}
          />
        </div>
        <div>
          <p class="settings-label">{t("settings.language")}</p>
          <Choice<Language>
            label={t("settings.language")}
            value={language}
            options={[
              { value: "en", label: "English" },
              { value: "de", label: "Deutsch" },
            ]}
            onChange={chooseLanguage}
          />
        </div>
      </div>
    </section>
  );
}

/** The MCP servers of the organization. They are configured with commands and over HTTP; here they are only shown. */
function Connectors() {
  const loaded = usePages((query, signal) => ask(api.GET("/api/v1/connectors", { params: { query }, signal })), []);
  return (
    <section class="card settings-group">
      <h2>{t("settings.connectors")}</h2>
      <p class="quiet">
        <Words text={t("settings.connectors_text")} />{" "}
        <a href="/api/v1/docs#tag/connectors" data-native>
          {t("settings.connectors_api")}
        </a>
      </p>
      <Shown of={loaded}>
        {({ items }) =>
          items.length === 0 ? (
            <p class="quiet">{t("settings.connectors_none")}</p>
          ) : (
            <Table
              label={t("settings.connectors")}
              heads={[t("settings.name"), t("settings.where"), t("settings.state"), t("settings.allowed_tools")]}
            >
              {items.map((one) => (
                <tr key={`${one.scope} ${one.name}`}>
                  <td>
                    <strong>{one.name}</strong> <Badge>{one.scope}</Badge>
                    {one.description && <p class="quiet note">{one.description}</p>}
                  </td>
                  <td>
                    <code>{one.where}</code>
                  </td>
                  <td>
                    {one.problem ? (
                      <Badge tone="bad" title={one.problem}>
                        {t("settings.broken")}
                      </Badge>
                    ) : (
                      <Badge tone={one.accepted ? "good" : "warn"}>
                        {t(one.accepted ? "settings.accepted" : "settings.not_accepted")}
                      </Badge>
                    )}
                  </td>
                  <td data-label={t("settings.allowed_tools")}>{one.allowed_tools.join(", ") || "–"}</td>
                </tr>
              ))}
            </Table>
          )
        }
      </Shown>
      {loaded.data?.next_cursor && <More of={loaded} />}
    </section>
  );
}
