// Which variables of the server skills may read, each for exactly one content.
import { useState } from "preact/hooks";
import { api, ask, type Shapes } from "../../api/client";
import { useLoad } from "../../api/load";
import { t } from "../../i18n";
import { Badge, type Tone } from "../../parts/badge";
import { Button, Field } from "../../parts/controls";
import { Shown } from "../../parts/states";
import { Table } from "../../parts/table";
import { attempt, say } from "../../parts/toast";
import { may } from "../../state";

type Grant = Shapes["EnvGrantShape"];

const TONES: Record<Grant["state"], Tone> = {
  allowed: "good",
  unset: "warn",
  changed: "warn",
  asked: "accent",
  unused: "plain",
};

export function EnvGrants() {
  const [skill, setSkill] = useState("");
  const [wanted, setWanted] = useState("");
  const granted = useLoad((signal) => ask(api.GET("/api/v1/env", { signal })), [], ["settings_changed"]);
  const asked = useLoad(
    async (signal) =>
      wanted ? await ask(api.GET("/api/v1/env", { params: { query: { skill: wanted } }, signal })) : undefined,
    [wanted],
  );
  const change = async (grant: Grant, isAllowed: boolean) => {
    const params = { path: { slug: grant.slug, name: grant.name } };
    const request: Promise<unknown> = isAllowed
      ? ask(api.PUT("/api/v1/env/{slug}/{name}", { params }))
      : ask(api.DELETE("/api/v1/env/{slug}/{name}", { params }));
    const done = await attempt(request.then(() => true));
    if (!done) return;
    say(t(isAllowed ? "settings.said_allowed" : "settings.said_forbidden", { name: grant.name, skill: grant.slug }));
    granted.reload();
    asked.reload();
  };
  return (
    <section class="card settings-group">
      <h2>{t("settings.env")}</h2>
      <p class="quiet">{t("settings.env_text")}</p>
      <Shown of={granted}>
        {({ items }) =>
          items.length === 0 ? (
            <p class="quiet">{t("settings.env_none")}</p>
          ) : (
            <Grants label={t("settings.env")} items={items} onChange={change} />
          )
        }
      </Shown>
      {may("admin") && (
        <form
          class="settings-lookup"
          onSubmit={(event) => {
            event.preventDefault();
            setWanted(skill.trim());
          }}
        >
          <Field label={t("settings.env_skill")}>
            {(ids) => <input {...ids} value={skill} onInput={(event) => setSkill(event.currentTarget.value)} />}
          </Field>
          <Button type="submit" disabled={!skill.trim()}>
            {t("settings.env_show")}
          </Button>
        </form>
      )}
      {wanted && (
        <Shown of={asked}>
          {(found) =>
            found && found.items.length > 0 ? (
              <Grants label={wanted} items={found.items} onChange={change} />
            ) : (
              <p class="quiet">{t("settings.env_asks_none", { skill: wanted })}</p>
            )
          }
        </Shown>
      )}
    </section>
  );
}

interface GrantsProps {
  label: string;
  items: Grant[];
  onChange: (grant: Grant, isAllowed: boolean) => void;
}

function Grants({ label, items, onChange }: GrantsProps) {
  return (
    <Table
      label={label}
      heads={[t("settings.variable"), t("settings.skill"), t("settings.state")]}
      action={t("settings.action")}
    >
      {items.map((one) => (
        <tr key={`${one.slug} ${one.name}`}>
          <td>
            <code>{one.name}</code>
          </td>
          <td data-label={t("settings.skill")}>{one.slug}</td>
          <td>
            <Badge tone={TONES[one.state]}>{t(`settings.env_${one.state}`)}</Badge>
          </td>
          <td class="number">
            {may("admin") && (one.state === "asked" || one.state === "changed") && (
              <Button onClick={() => onChange(one, true)}>{t("settings.allow")}</Button>
            )}{" "}
            {may("admin") && one.state !== "asked" && (
              <Button look="danger" onClick={() => onChange(one, false)}>
                {t("settings.forbid")}
              </Button>
            )}
          </td>
        </tr>
      ))}
    </Table>
  );
}
