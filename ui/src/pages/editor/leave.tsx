// Leaving a page with changes that are not saved: the browser asks, and so does the page.
import { useEffect, useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { t } from "../../i18n";
import { Button } from "../../parts/controls";
import { Dialog } from "../../parts/dialog";

interface Props {
  isChanged: boolean;
  /** Save, and return True if it worked. */
  onSave: () => Promise<boolean>;
  onDiscard: () => void;
}

export function LeaveGuard({ isChanged, onSave, onDiscard }: Props) {
  const { route } = useLocation();
  const [target, setTarget] = useState("");
  useEffect(() => {
    if (!isChanged) return;
    const close = (event: BeforeUnloadEvent) => event.preventDefault();
    const click = (event: MouseEvent) => {
      const link = (event.target as Element | null)?.closest?.("a[href]");
      if (!(link instanceof HTMLAnchorElement) || event.defaultPrevented || event.button !== 0) return;
      const isElsewhere = event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || link.target === "_blank";
      const isHere = link.getAttribute("href")?.startsWith("#");
      if (isElsewhere || isHere || link.origin !== location.origin || link.closest("dialog")) return;
      event.preventDefault();
      event.stopPropagation();
      setTarget(link.pathname + link.search);
    };
    window.addEventListener("beforeunload", close);
    document.addEventListener("click", click, { capture: true });
    return () => {
      window.removeEventListener("beforeunload", close);
      document.removeEventListener("click", click, { capture: true });
    };
  }, [isChanged]);
  if (!target) return null;
  const leave = () => {
    setTarget("");
    route(target);
  };
  return (
    <Dialog
      title={t("editor.leave")}
      onClose={() => setTarget("")}
      actions={
        <>
          <Button
            look="danger"
            onClick={() => {
              onDiscard();
              leave();
            }}
          >
            {t("editor.leave_discard")}
          </Button>
          <Button onClick={leave}>{t("editor.leave_keep")}</Button>
          <Button
            look="primary"
            onClick={async () => {
              if (await onSave()) leave();
              else setTarget("");
            }}
          >
            {t("editor.leave_save")}
          </Button>
        </>
      }
    >
      <p>{t("editor.leave_text")}</p>
    </Dialog>
  );
}
