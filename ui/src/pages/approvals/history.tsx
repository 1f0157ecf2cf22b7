// Requests that have an answer.
import { useRef, useState } from "preact/hooks";
import { api, ask } from "../../api/client";
import { useLoad } from "../../api/load";
import { ago, moment } from "../../format";
import { t } from "../../i18n";
import { type Approval, ApprovalCard, actionName, State, subjectOf } from "../../parts/approval-card";
import { Button, Choice, Field } from "../../parts/controls";
import { Dialog } from "../../parts/dialog";
import { Empty, Shown } from "../../parts/states";
import { Table } from "../../parts/table";
import { attempt, say } from "../../parts/toast";
import { may } from "../../state";

const STATES = ["all", "approved", "denied", "expired", "revoked"] as const;
const PAGE = 50;

export function History() {
  const [state, setState] = useState<(typeof STATES)[number]>("all");
  const limit = useRef(PAGE);
  const [opened, setOpened] = useState<Approval>();
  const [revoked, setRevoked] = useState<Approval>();
  const [note, setNote] = useState("");
  const loaded = useLoad(
    async (signal) => {
      const items: Approval[] = [];
      let cursor: string | undefined;
      do {
        const query = { state, limit: 200, cursor };
        const page = await ask(api.GET("/api/v1/approvals", { params: { query }, signal }));
        items.push(...page.items.filter((one) => one.state !== "pending"));
        cursor = page.next_cursor ?? undefined;
      } while (cursor && items.length < limit.current);
      const { current } = limit;
      return { items: items.slice(0, current), hasMore: items.length > current || cursor !== undefined };
    },
    [state],
    ["approval_resolved"],
  );
  const more = () => {
    limit.current += PAGE;
    loaded.reload();
  };
  const revoke = async (one: Approval) => {
    const request = api.POST("/api/v1/approvals/{id}/revoke", { params: { path: { id: one.id } }, body: { note } });
    if (!(await attempt(ask(request)))) return;
    say(t("approvals.said_revoked", { name: subjectOf(one) }));
    setRevoked(undefined);
    setNote("");
    loaded.reload();
  };
  return (
    <>
      <div class="toolbar">
        <Choice
          label={t("approvals.state")}
          value={state}
          options={STATES.map((one) => ({
            value: one,
            label: one === "all" ? t("approvals.all") : t(`card.state_${one}`),
          }))}
          onChange={setState}
        />
      </div>
      <Shown of={loaded}>
        {({ items, hasMore }) =>
          items.length === 0 ? (
            <Empty title={t("approvals.history_none")} />
          ) : (
            <>
              <Table
                label={t("approvals.history")}
                heads={[t("approvals.request"), t("approvals.answer"), t("approvals.by"), t("approvals.when")]}
                action={t("approvals.action")}
              >
                {items.map((one) => (
                  <tr key={one.id}>
                    <td>
                      <button type="button" class="approvals-link" onClick={() => setOpened(one)}>
                        {subjectOf(one)}
                      </button>
                      <br />
                      <span class="quiet">
                        {one.requester} · {actionName(one.action)}
                      </span>
                    </td>
                    <td>
                      <State approval={one} />
                      {one.note && <p class="quiet note">{one.note}</p>}
                    </td>
                    <td data-label={t("approvals.by")}>{one.resolver ?? "–"}</td>
                    <td>
                      <time title={moment(one.resolved_at ?? one.expires_at)}>
                        {ago(one.resolved_at ?? one.expires_at)}
                      </time>
                    </td>
                    <td class="number">
                      {one.state === "approved" && may("approvals.resolve") && (
                        <Button look="danger" onClick={() => setRevoked(one)}>
                          {t("approvals.revoke")}
                        </Button>
                      )}
                    </td>
                  </tr>
                ))}
              </Table>
              {hasMore && <Button onClick={more}>{t("approvals.more")}</Button>}
            </>
          )
        }
      </Shown>
      {opened && (
        <Dialog title={subjectOf(opened)} onClose={() => setOpened(undefined)} isWide>
          <ApprovalCard approval={opened} isWhole />
        </Dialog>
      )}
      {revoked && (
        <Dialog
          title={t("approvals.revoke_title", { name: subjectOf(revoked) })}
          onClose={() => setRevoked(undefined)}
          answer={{ text: t("approvals.revoke"), look: "danger", onClick: () => revoke(revoked) }}
        >
          <p>{t("approvals.revoke_text")}</p>
          <Field label={t("card.reason")}>
            {(ids) => (
              <input {...ids} value={note} maxLength={4000} onInput={(event) => setNote(event.currentTarget.value)} />
            )}
          </Field>
        </Dialog>
      )}
    </>
  );
}
