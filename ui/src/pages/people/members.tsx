// The members of an organization and what they may do.
import { useState } from "preact/hooks";
import { api, ask, type Problem, type Shapes } from "../../api/client";
import { usePages } from "../../api/load";
import { ago, moment } from "../../format";
import { t } from "../../i18n";
import { Badge } from "../../parts/badge";
import { Button, Field } from "../../parts/controls";
import { Dialog } from "../../parts/dialog";
import { Icon } from "../../parts/icons";
import { asProblem, Empty, More, ProblemBox, Shown, Words } from "../../parts/states";
import { Table } from "../../parts/table";
import { attempt, say } from "../../parts/toast";
import { me } from "../../state";
import { DEFAULT_PERMISSIONS, PERMISSIONS, PermissionChoice } from "./permissions";

type Member = Shapes["MemberShape"];

interface Props {
  isOperator: boolean;
  organizations: string[];
  organization: string;
  onChoose: (id: string) => void;
}

export function Members({ isOperator, organizations, organization, onChoose }: Props) {
  const [changed, setChanged] = useState<Member | "new">();
  const [removed, setRemoved] = useState<Member>();
  const isNowhere = isOperator && !organization;
  const members = usePages(
    async (page, signal) =>
      isNowhere
        ? { items: [], next_cursor: null, total: 0 }
        : ask(api.GET("/api/v1/members", { params: { query: { ...page, organization } }, signal })),
    [organization],
  );
  const remove = async (one: Member) => {
    const params = { path: { user: one.user_id }, query: { organization } };
    if (!(await attempt(ask(api.DELETE("/api/v1/members/{user}", { params }))))) return;
    say(t("people.said_removed", { name: one.name || one.user_id }));
    setRemoved(undefined);
    members.reload();
  };
  if (isNowhere)
    return (
      <Empty title={t("people.single_title")}>
        <p>
          <Words text={t("people.single_text")} />
        </p>
        <a class="button" href="/people?tab=organizations">
          {t("people.organizations")}
        </a>
      </Empty>
    );
  return (
    <>
      <div class="toolbar">
        {organizations.length > 0 && (
          <select
            class="people-organization"
            aria-label={t("people.organization")}
            value={organization}
            onChange={(event) => onChoose(event.currentTarget.value)}
          >
            {organizations.map((id) => (
              <option key={id} value={id}>
                {id}
              </option>
            ))}
          </select>
        )}
        <Button look="primary" onClick={() => setChanged("new")}>
          <Icon name="plus" />
          {t("people.add_member")}
        </Button>
      </div>
      <Shown of={members}>
        {(page) =>
          !page || page.items.length === 0 ? (
            <Empty title={t("people.members_none")} />
          ) : (
            <Table
              label={t("people.members")}
              heads={[t("people.name"), t("people.permissions"), t("people.since")]}
              action={t("people.action")}
            >
              {page.items.map((one) => (
                <tr key={one.user_id} class={one.deactivated_at ? "people-gone" : undefined}>
                  <td>
                    <strong>{one.name || one.user_id}</strong>{" "}
                    {one.role === "admin" && !one.deactivated_at && <Badge tone="accent">admin</Badge>}
                    {one.deactivated_at && <Badge>{t("people.removed")}</Badge>}
                    <br />
                    <span class="quiet">
                      <code>{one.user_id}</code> {one.email}
                    </span>
                  </td>
                  <td class="people-scopes">{one.permissions.join(", ")}</td>
                  <td data-label={t("people.since")}>
                    <time title={`${moment(one.created_at)}, ${one.created_by}`}>{ago(one.created_at)}</time>
                  </td>
                  <td class="number">
                    {!one.deactivated_at && (
                      <span class="people-buttons">
                        <Button onClick={() => setChanged(one)}>{t("people.change")}</Button>
                        <Button look="danger" onClick={() => setRemoved(one)}>
                          {t("people.remove")}
                        </Button>
                      </span>
                    )}
                  </td>
                </tr>
              ))}
            </Table>
          )
        }
      </Shown>
      <More of={members} />
      <p class="quiet">
        <Words
          text={t("people.members_sign_in", { organization: organization || me.value?.organization_id || "ID" })}
        />
      </p>
      {changed && (
        <MemberDialog
          member={changed === "new" ? undefined : changed}
          organization={organization}
          onClose={() => setChanged(undefined)}
          onDone={() => {
            setChanged(undefined);
            members.reload();
          }}
        />
      )}
      {removed && (
        <Dialog
          title={t("people.remove_title", { name: removed.name || removed.user_id })}
          onClose={() => setRemoved(undefined)}
          answer={{ text: t("people.remove"), look: "danger", onClick: () => remove(removed) }}
        >
          <p>{t("people.remove_text")}</p>
        </Dialog>
      )}
    </>
  );
}

interface DialogProps {
  member?: Member;
  organization: string;
  onClose: () => void;
  onDone: () => void;
}

function MemberDialog({ member, organization, onClose, onDone }: DialogProps) {
  const [user, setUser] = useState("");
  const [name, setName] = useState("");
  const [email, setEmail] = useState("");
  const [permissions, setPermissions] = useState<string[]>(member?.permissions ?? DEFAULT_PERMISSIONS);
  const [problem, setProblem] = useState<Problem>();
  const save = async () => {
    setProblem(undefined);
    const given = { admin: permissions.includes("admin"), permissions };
    const query = { organization };
    try {
      if (member)
        await ask(
          api.PUT("/api/v1/members/{user}/permissions", {
            params: { path: { user: member.user_id }, query },
            body: given,
          }),
        );
      else
        await ask(api.POST("/api/v1/members", { params: { query }, body: { user_id: user, name, email, ...given } }));
      say(t(member ? "people.said_changed" : "people.said_added", { name: member?.name || name || user }));
      onDone();
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  return (
    <Dialog
      title={member ? t("people.change_title", { name: member.name || member.user_id }) : t("people.add_member")}
      onClose={onClose}
      answer={{ text: t(member ? "people.save" : "people.add"), look: "primary", onClick: save }}
    >
      {problem && <ProblemBox problem={problem} />}
      {!member && (
        <>
          <Field label={t("people.user")} hint={t("people.user_hint")}>
            {(ids) => <input {...ids} value={user} onInput={(event) => setUser(event.currentTarget.value)} />}
          </Field>
          <Field label={t("people.name")}>
            {(ids) => <input {...ids} value={name} onInput={(event) => setName(event.currentTarget.value)} />}
          </Field>
          <Field label={t("people.email")}>
            {(ids) => (
              <input {...ids} type="email" value={email} onInput={(event) => setEmail(event.currentTarget.value)} />
            )}
          </Field>
        </>
      )}
      <PermissionChoice
        label={t("people.permissions")}
        value={permissions}
        options={PERMISSIONS}
        onChange={setPermissions}
      />
    </Dialog>
  );
}
