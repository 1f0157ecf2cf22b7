// The field for the next message, with the model and the role that answer.
import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { t } from "../../i18n";
import { Button } from "../../parts/controls";
import { Icon } from "../../parts/icons";
import { keepDraft, readDraft } from "./draft";

const LONGEST = 100_000;

interface Props {
  /** The conversation, or "new". */
  id: string;
  isRunning: boolean;
  onSend: (text: string) => Promise<boolean>;
  onStop: () => unknown;
  /** True to begin with the focus in the field. */
  isFocused?: boolean;
  /** What is chosen for the message, below the field. */
  children: ComponentChildren;
}

export function Composer({ id, isRunning, onSend, onStop, isFocused, children }: Props) {
  const [text, setText] = useState(() => readDraft(id));
  const [isSending, setSending] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => setText(readDraft(id)), [id]);
  useLayoutEffect(() => {
    if (isFocused) field.current?.focus();
  }, []);
  useLayoutEffect(() => {
    // As high as its text, up to what the style allows.
    if (!field.current) return;
    field.current.style.height = "auto";
    field.current.style.height = `${field.current.scrollHeight + 2}px`;
  }, [text]);
  const change = (value: string) => {
    setText(value);
    keepDraft(id, value);
  };
  const send = async () => {
    if (!text.trim() || isRunning || isSending) return;
    setSending(true);
    // The text stays until the server has taken it, and then what was added to it meanwhile.
    if (await onSend(text)) {
      const now = field.current?.value ?? text;
      change(now.startsWith(text) ? now.slice(text.length).trimStart() : now);
    }
    setSending(false);
    field.current?.focus();
  };
  const press = (event: KeyboardEvent) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    void send();
  };
  return (
    <form
      class="chat-composer"
      onSubmit={(event) => {
        event.preventDefault();
        void send();
      }}
    >
      <div class="chat-field">
        <textarea
          ref={field}
          rows={1}
          aria-label={t("chat.message")}
          placeholder={t("chat.message_hint")}
          maxLength={LONGEST}
          value={text}
          onInput={(event) => change(event.currentTarget.value)}
          onKeyDown={press}
        />
        {isRunning ? (
          <Button look="danger" onClick={onStop}>
            <Icon name="stop" />
            {t("chat.stop")}
          </Button>
        ) : (
          <Button look="primary" type="submit" disabled={!text.trim() || isSending}>
            {t("chat.send")}
          </Button>
        )}
      </div>
      <div class="chat-foot">
        {children}
        <span class="quiet chat-keys">{t("chat.keys")}</span>
      </div>
    </form>
  );
}
