// The MCP servers of the organization. They are configured with commands and over HTTP; here they are only shown.
import { api, ask } from "../../api/client";
import { usePages } from "../../api/load";
import { t } from "../../i18n";
import { Badge } from "../../parts/badge";
import { More, Shown, Words } from "../../parts/states";
import { Table } from "../../parts/table";

export function Connectors() {
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
                  <td>{one.allowed_tools.join(", ") || "–"}</td>
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
