// The facts that the person had remembered: they enter the prompt of conversations, so they can be seen and forgotten here.
import { useState } from "preact/hooks";
import { api, ask } from "../../api/client";
import { usePages } from "../../api/load";
import { ago, moment } from "../../format";
import { t } from "../../i18n";
import { Button, Field } from "../../parts/controls";
import { More, Shown } from "../../parts/states";
import { Table } from "../../parts/table";
import { attempt } from "../../parts/toast";
import { may } from "../../state";

export function Memory() {
  const [text, setText] = useState("");
  const facts = usePages((query, signal) => ask(api.GET("/api/v1/memory", { params: { query }, signal })), []);
  const remember = async () => {
    const done = await attempt(ask(api.POST("/api/v1/memory", { body: { text } })));
    if (!done) return;
    setText("");
    facts.reload();
  };
  const forget = async (id: string) => {
    const done = await attempt(ask(api.DELETE("/api/v1/memory/{id}", { params: { path: { id } } })));
    if (done) facts.reload();
  };
  return (
    <section class="card settings-group">
      <h2>{t("settings.memory")}</h2>
      <p class="quiet">{t("settings.memory_text")}</p>
      <Shown of={facts}>
        {({ items }) =>
          items.length === 0 ? (
            <p class="quiet">{t("settings.memory_none")}</p>
          ) : (
            <Table
              label={t("settings.memory")}
              heads={[t("settings.fact"), t("settings.since")]}
              action={t("settings.action")}
            >
              {items.map((fact) => (
                <tr key={fact.id}>
                  <td class="settings-fact">{fact.text}</td>
                  <td title={moment(fact.created_at)}>{ago(fact.created_at)}</td>
                  <td class="number">
                    {may("skills.run") && <Button onClick={() => forget(fact.id)}>{t("settings.forget")}</Button>}
                  </td>
                </tr>
              ))}
            </Table>
          )
        }
      </Shown>
      {facts.data?.next_cursor && <More of={facts} />}
      {may("skills.run") && (
        <form
          class="settings-lookup"
          onSubmit={(event) => {
            event.preventDefault();
            void remember();
          }}
        >
          <Field label={t("settings.new_fact")}>
            {(ids) => (
              <input
                {...ids}
                value={text}
                placeholder={t("settings.new_fact_help")}
                onInput={(event) => setText(event.currentTarget.value)}
              />
            )}
          </Field>
          <Button type="submit" disabled={!text.trim()}>
            {t("settings.remember")}
          </Button>
        </form>
      )}
    </section>
  );
}
