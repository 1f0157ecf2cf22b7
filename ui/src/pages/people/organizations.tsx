// The organizations of a server, for its operator.
import { useState } from "preact/hooks";
import { api, ask, type Problem, type Shapes } from "../../api/client";
import { ago, moment } from "../../format";
import { t } from "../../i18n";
import { Badge } from "../../parts/badge";
import { Button, Field } from "../../parts/controls";
import { Dialog } from "../../parts/dialog";
import { Icon } from "../../parts/icons";
import { asProblem, Empty, ProblemBox } from "../../parts/states";
import { Table } from "../../parts/table";
import { attempt, say } from "../../parts/toast";

type Organization = Shapes["OrganizationShape"];

interface Props {
  items: Organization[];
  onChange: () => void;
  onOpen: (id: string) => void;
}

export function Organizations({ items, onChange, onOpen }: Props) {
  const [isMaking, setMaking] = useState(false);
  const [ended, setEnded] = useState<Organization>();
  const end = async (one: Organization) => {
    if (!(await attempt(ask(api.DELETE("/api/v1/organizations/{id}", { params: { path: { id: one.id } } }))))) return;
    say(t("people.said_deactivated", { name: one.name || one.id }));
    setEnded(undefined);
    onChange();
  };
  return (
    <>
      <div class="toolbar">
        <Button look="primary" onClick={() => setMaking(true)}>
          <Icon name="plus" />
          {t("people.new_organization")}
        </Button>
      </div>
      {items.length === 0 ? (
        <Empty title={t("people.organizations_none")}>
          <p>{t("people.organizations_none_text")}</p>
        </Empty>
      ) : (
        <Table
          label={t("people.organizations")}
          heads={[t("people.name"), t("people.since")]}
          action={t("people.action")}
        >
          {items.map((one) => (
            <tr key={one.id} class={one.deactivated_at ? "people-gone" : undefined}>
              <td>
                <strong>{one.name || one.id}</strong> {one.deactivated_at && <Badge>{t("people.deactivated")}</Badge>}
                <br />
                <code>{one.id}</code>
              </td>
              <td data-label={t("people.since")}>
                <time title={`${moment(one.created_at)}, ${one.created_by}`}>{ago(one.created_at)}</time>
              </td>
              <td class="number">
                {!one.deactivated_at && (
                  <span class="people-buttons">
                    <Button onClick={() => onOpen(one.id)}>{t("people.members")}</Button>
                    <Button look="danger" onClick={() => setEnded(one)}>
                      {t("people.deactivate")}
                    </Button>
                  </span>
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
      {isMaking && (
        <NewOrganization
          onClose={() => setMaking(false)}
          onMade={() => {
            setMaking(false);
            onChange();
          }}
        />
      )}
      {ended && (
        <Dialog
          title={t("people.deactivate_title", { name: ended.name || ended.id })}
          onClose={() => setEnded(undefined)}
          answer={{ text: t("people.deactivate"), look: "danger", onClick: () => end(ended) }}
        >
          <p>{t("people.deactivate_text")}</p>
        </Dialog>
      )}
    </>
  );
}

function NewOrganization({ onClose, onMade }: { onClose: () => void; onMade: () => void }) {
  const [id, setId] = useState("");
  const [name, setName] = useState("");
  const [problem, setProblem] = useState<Problem>();
  const create = async () => {
    setProblem(undefined);
    try {
      await ask(api.POST("/api/v1/organizations", { body: { id, name } }));
      say(t("people.said_added", { name: name || id }));
      onMade();
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  return (
    <Dialog
      title={t("people.new_organization")}
      onClose={onClose}
      answer={{ text: t("people.create"), look: "primary", onClick: create }}
    >
      {problem && <ProblemBox problem={problem} />}
      <Field label={t("people.id")} hint={t("people.user_hint")}>
        {(ids) => <input {...ids} value={id} onInput={(event) => setId(event.currentTarget.value)} />}
      </Field>
      <Field label={t("people.name")}>
        {(ids) => <input {...ids} value={name} onInput={(event) => setName(event.currentTarget.value)} />}
      </Field>
    </Dialog>
  );
}
