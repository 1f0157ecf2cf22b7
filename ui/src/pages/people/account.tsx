// The person who is signed in, and the browsers in which they are.
import { api, ask } from "../../api/client";
import { usePages } from "../../api/load";
import { ago, moment } from "../../format";
import { t } from "../../i18n";
import { Badge } from "../../parts/badge";
import { Button } from "../../parts/controls";
import { More, Shown } from "../../parts/states";
import { Table } from "../../parts/table";
import { attempt, say } from "../../parts/toast";
import { me, signOut } from "../../state";

export function Account() {
  const person = me.value;
  const sessions = usePages((query, signal) => ask(api.GET("/api/v1/web-sessions", { params: { query }, signal })), []);
  const end = async (id: string) => {
    const request = ask(api.DELETE("/api/v1/web-sessions/{id}", { params: { path: { id } } }));
    if (!(await attempt(request.then(() => true)))) return;
    say(t("people.said_ended"));
    sessions.reload();
  };
  if (!person) return null;
  return (
    <>
      <section class="card">
        <h2>{person.name}</h2>
        <dl class="facts">
          <dt>{t("people.organization")}</dt>
          <dd>{person.organization_id || t("people.single")}</dd>
          {person.user_id && (
            <>
              <dt>{t("people.user")}</dt>
              <dd>
                <code>{person.user_id}</code>
              </dd>
            </>
          )}
          <dt>{t("people.permissions")}</dt>
          <dd class="people-permissions">
            {person.permissions.map((one) => (
              <Badge key={one} tone={one === "admin" ? "accent" : "plain"}>
                {one}
              </Badge>
            ))}
          </dd>
        </dl>
        <p>
          <Button onClick={() => attempt(signOut())}>{t("people.sign_out")}</Button>
        </p>
      </section>
      <h2>{t("people.browsers")}</h2>
      <Shown of={sessions}>
        {({ items }) =>
          items.length === 0 ? (
            <p class="quiet">{t("people.browsers_none")}</p>
          ) : (
            <Table
              label={t("people.browsers")}
              heads={[t("people.browser"), t("people.signed_in"), t("people.last_used")]}
              action={t("people.action")}
            >
              {items.map((one) => (
                <tr key={one.id}>
                  <td class="people-client" title={one.client}>
                    {browserName(one.client)}
                  </td>
                  <td data-label={t("people.signed_in")}>
                    <time title={moment(one.created_at)}>{ago(one.created_at)}</time>
                    <span class="quiet"> {one.how === "code" ? t("people.by_link") : one.how}</span>
                  </td>
                  <td data-label={t("people.last_used")}>{one.last_used_at ? ago(one.last_used_at) : "–"}</td>
                  <td class="number">
                    <Button look="danger" onClick={() => end(one.id)}>
                      {t("people.end")}
                    </Button>
                  </td>
                </tr>
              ))}
            </Table>
          )
        }
      </Shown>
      <More of={sessions} />
    </>
  );
}

const BROWSERS = [
  ["Edg/", "Edge"],
  ["OPR/", "Opera"],
  ["Firefox/", "Firefox"],
  ["Chrome/", "Chrome"],
  ["Safari/", "Safari"],
] as const;
const SYSTEMS = [
  ["Android", "Android"],
  ["iPhone", "iPhone"],
  ["iPad", "iPad"],
  ["Windows", "Windows"],
  ["Mac OS X", "macOS"],
  ["Linux", "Linux"],
] as const;

/** Return "Firefox, Linux" for the text with which a browser names itself. */
function browserName(client: string): string {
  const find = (names: readonly (readonly [string, string])[]) => names.find(([part]) => client.includes(part))?.[1];
  return [find(BROWSERS), find(SYSTEMS)].filter(Boolean).join(", ") || client.slice(0, 60) || "–";
}
