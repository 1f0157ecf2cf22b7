// The contents of skills that somebody accepted, wrote or imported.
import { useState } from "preact/hooks";
import { api, ask, type Shapes } from "../../api/client";
import { useLoad } from "../../api/load";
import { ago, moment } from "../../format";
import { t } from "../../i18n";
import { Button, Search } from "../../parts/controls";
import { Dialog } from "../../parts/dialog";
import { Empty, Shown } from "../../parts/states";
import { Table } from "../../parts/table";
import { attempt, say } from "../../parts/toast";
import { may } from "../../state";

type Acceptance = Shapes["AcceptanceShape"];

const SHOWN = 100;

export function Accepted({ onChange }: { onChange: () => void }) {
  const [text, setText] = useState("");
  const [limit, setLimit] = useState(SHOWN);
  const [revoked, setRevoked] = useState<Acceptance>();
  const accepted = useLoad(loadAll, [], ["approval_resolved"]);
  const revoke = async (one: Acceptance) => {
    const done = await attempt(ask(api.DELETE("/api/v1/trust/{target}", { params: { path: { target: one.digest } } })));
    if (!done) return;
    say(t("approvals.said_revoked", { name: one.slug }));
    setRevoked(undefined);
    accepted.reload();
    onChange();
  };
  return (
    <Shown of={accepted}>
      {(items) => {
        const found = items.filter((one) => `${one.slug} ${one.digest} ${one.actor}`.includes(text.trim()));
        if (items.length === 0) return <Empty title={t("approvals.accepted_none")} />;
        return (
          <>
            <div class="toolbar">
              <Search label={t("approvals.search")} value={text} onInput={setText} />
            </div>
            <Table
              label={t("approvals.accepted")}
              heads={[t("approvals.skill"), t("approvals.how"), t("approvals.by"), t("approvals.when")]}
              action={t("approvals.action")}
            >
              {found.slice(0, limit).map((one) => (
                <tr key={one.id}>
                  <td>
                    <strong>{one.slug}</strong>
                    <br />
                    <code class="digest">{one.digest.slice(0, 12)}</code>
                  </td>
                  <td title={one.proof}>{one.how}</td>
                  <td data-label={t("approvals.by")}>{one.actor}</td>
                  <td>
                    <time title={moment(one.created_at)}>{ago(one.created_at)}</time>
                  </td>
                  <td class="number">
                    {may("approvals.resolve") && (
                      <Button look="danger" onClick={() => setRevoked(one)}>
                        {t("approvals.revoke")}
                      </Button>
                    )}
                  </td>
                </tr>
              ))}
            </Table>
            {found.length === 0 && <p class="quiet">{t("approvals.no_match")}</p>}
            {found.length > limit && <Button onClick={() => setLimit(limit + SHOWN)}>{t("approvals.more")}</Button>}
            {revoked && (
              <Dialog
                title={t("approvals.revoke_title", { name: revoked.slug })}
                onClose={() => setRevoked(undefined)}
                answer={{ text: t("approvals.revoke"), look: "danger", onClick: () => revoke(revoked) }}
              >
                <p>{t("approvals.revoke_text")}</p>
                <code class="digest">{revoked.digest}</code>
              </Dialog>
            )}
          </>
        );
      }}
    </Shown>
  );
}

async function loadAll(signal: AbortSignal): Promise<Acceptance[]> {
  const items: Acceptance[] = [];
  let cursor: string | undefined;
  do {
    const page = await ask(api.GET("/api/v1/trust", { params: { query: { limit: 200, cursor } }, signal }));
    items.push(...page.items);
    cursor = page.next_cursor ?? undefined;
  } while (cursor);
  return items;
}
