import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { t } from "../i18n";
import { Button, type ButtonProps } from "./controls";
import { Icon } from "./icons";
import { Toasts } from "./toast";

const FIRST_FIELD =
  ".dialog-body :is(textarea, select, input:not([type=radio], [type=checkbox], [type=file])):not([readonly], :disabled)";

interface Props {
  title: string;
  onClose: () => void;
  /** Buttons at the end. */
  actions?: ComponentChildren;
  /** In their place: the button that answers the dialog, beside one that cancels it. */
  answer?: { text: string; look: ButtonProps["look"]; onClick: ButtonProps["onClick"]; disabled?: boolean };
  isWide?: boolean;
  children: ComponentChildren;
}

/** Move to the first field with a problem after each attempt: it may be out of sight, and a screen reader then reads both. */
export function useInvalidFocus(attempt: unknown) {
  useEffect(() => document.querySelector<HTMLElement>("dialog [aria-invalid=true]")?.focus(), [attempt]);
}

/** A dialog over the page. Escape closes it, and the focus goes back to where it was. */
export function Dialog({ title, onClose, actions, answer, isWide, children }: Props) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const before = document.activeElement;
    const shown = element.current;
    shown?.showModal();
    // The browser would choose the button that closes it. The first field is what people came for.
    shown?.querySelector<HTMLElement>(FIRST_FIELD)?.focus();
    return () => {
      // A key that was pressed meanwhile may have moved the focus on.
      const now = document.activeElement;
      const isLost = now === document.body || shown?.contains(now);
      if (isLost && before instanceof HTMLElement) before.focus();
    };
  }, []);
  return (
    <dialog ref={element} class={isWide ? "dialog wide" : "dialog"} aria-labelledby={id} onClose={onClose}>
      <header>
        <h2 id={id}>{title}</h2>
        <button type="button" class="icon-button" aria-label={t("states.close")} onClick={onClose}>
          <Icon name="close" />
        </button>
      </header>
      <div class="dialog-body">{children}</div>
      {actions && <footer>{actions}</footer>}
      {answer && (
        <footer>
          <Button onClick={onClose}>{t("states.cancel")}</Button>
          <Button look={answer.look} disabled={answer.disabled} onClick={answer.onClick}>
            {answer.text}
          </Button>
        </footer>
      )}
      {/* Those of the page lie behind the dialog, where nobody can click them, and no screen reader reads them. */}
      <Toasts />
    </dialog>
  );
}
