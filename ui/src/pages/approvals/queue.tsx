// The requests that wait: a list, and the card of the chosen one. `j` and `k` move, `a` approves, `d` denies, `v` shows all.
import { useEffect, useRef, useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { ago } from "../../format";
import { t } from "../../i18n";
import { useKeys } from "../../keys";
import { type Approval, ApprovalCard, actionName, subjectOf } from "../../parts/approval-card";
import { Badge } from "../../parts/badge";
import { Dialog } from "../../parts/dialog";
import { Empty } from "../../parts/states";

export function Queue({ items, onChange }: { items: Approval[]; onChange: () => void }) {
  const { query } = useLocation();
  const list = useRef<HTMLUListElement>(null);
  // The chosen request itself, not its place: when others come and go, the card stays what it was.
  const [chosen, setChosen] = useState<Approval | undefined>(items.find((one) => one.id === query.id) ?? items[0]);
  const [isOpen, setOpen] = useState(false);
  const place = useRef(0);
  const here = items.findIndex((one) => one.id === chosen?.id);
  if (here >= 0) place.current = here;
  useEffect(() => {
    if (!chosen && items[0]) setChosen(items[0]);
  }, [items]);

  const choose = (index: number) => {
    const next = items[Math.max(0, Math.min(index, items.length - 1))];
    if (!next) return;
    setChosen(next);
    list.current?.querySelectorAll<HTMLElement>("button")[items.indexOf(next)]?.focus();
  };
  // A request that is gone has left its place to the one after it.
  const move = (step: number) => choose(here >= 0 ? here + step : step > 0 ? place.current : place.current - 1);
  const answered = (answer: Approval, isOwn: boolean) => {
    setOpen(false);
    onChange();
    if (!isOwn) return;
    const rest = items.filter((one) => one.id !== answer.id);
    setChosen(rest[Math.min(place.current, rest.length - 1)]);
  };
  useKeys({ j: () => move(1), k: () => move(-1), v: () => chosen && setOpen(true) });
  // Arrows move in the list. Elsewhere they scroll, as on every page.
  const arrow = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    move(step);
  };

  if (!chosen)
    return (
      <Empty title={t("approvals.none")}>
        <p>{t("approvals.none_text")}</p>
      </Empty>
    );
  return (
    <div class="approvals-queue">
      <div class="approvals-list">
        {items.length === 0 && <p class="quiet">{t("approvals.none")}</p>}
        <ul ref={list} aria-label={t("approvals.waiting")}>
          {items.map((one) => (
            <li key={one.id}>
              <button
                type="button"
                aria-current={one.id === chosen.id}
                onClick={() => setChosen(one)}
                onKeyDown={arrow}
              >
                <span class="name">{subjectOf(one)}</span>
                <span class="quiet">
                  {one.requester} · {actionName(one.action)}
                </span>
                <span class="quiet line">
                  {ago(one.created_at)}
                  <Dangers approval={one} />
                </span>
              </button>
            </li>
          ))}
        </ul>
        <p class="quiet keys-hint">
          <kbd>j</kbd> <kbd>k</kbd> {t("approvals.key_move")} · <kbd>a</kbd> {t("approvals.key_approve")} · <kbd>d</kbd>{" "}
          {t("approvals.key_deny")} · <kbd>v</kbd> {t("approvals.key_open")}
        </p>
      </div>
      <ApprovalCard key={chosen.id} approval={chosen} onAnswered={answered} onOpen={() => setOpen(true)} hasKeys />
      {isOpen && (
        <Dialog title={subjectOf(chosen)} onClose={() => setOpen(false)} isWide>
          <ApprovalCard approval={chosen} onAnswered={answered} isWhole />
        </Dialog>
      )}
    </div>
  );
}

function Dangers({ approval }: { approval: Approval }) {
  const found = Array.isArray(approval.detail.findings) ? (approval.detail.findings as { severity?: string }[]) : [];
  const dangers = found.filter((one) => one.severity === "danger").length;
  if (dangers > 0) return <Badge tone="bad">{t("approvals.dangers", { count: dangers })}</Badge>;
  if (found.length > 0) return <Badge tone="warn">{t("approvals.findings", { count: found.length })}</Badge>;
  return null;
}
