// The conversations: begin, open, export and delete one.
import { useEffect, useRef, useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { api, ask, type Shapes } from "../../api/client";
import { useLoad } from "../../api/load";
import { ago } from "../../format";
import { type MessageKey, t } from "../../i18n";
import { Badge, type Tone } from "../../parts/badge";
import { Button } from "../../parts/controls";
import { Dialog } from "../../parts/dialog";
import { Icon } from "../../parts/icons";
import { Shown } from "../../parts/states";
import { attempt } from "../../parts/toast";
import { may } from "../../state";
import { forgetDraft } from "./draft";

type Conversation = Shapes["ConversationShape"];

const STATES: Record<string, [tone: Tone, key: MessageKey]> = {
  running: ["accent", "chat.state_running"],
  waiting: ["warn", "chat.state_waiting"],
  stopped: ["plain", "chat.state_stopped"],
  failed: ["bad", "chat.state_failed"],
};
const FIRST = 50;
const MORE = 200;

/** The list. `changed` is another value whenever the open conversation has changed. */
export function Conversations({ open, changed }: { open: string; changed: unknown }) {
  const [limit, setLimit] = useState(FIRST);
  const found = useLoad(
    (signal) => ask(api.GET("/api/v1/conversations", { params: { query: { limit } }, signal })),
    [limit],
    ["decision_made", "approval_required", "approval_resolved", "conversation_changed"],
  );
  const [shown, setShown] = useState(changed);
  if (shown !== changed) {
    setShown(changed);
    found.reload();
  }
  return (
    <nav class="chat-list" aria-label={t("chat.conversations")}>
      {may("skills.run") && (
        <a class="button" href="/chat">
          <Icon name="plus" />
          {t("chat.new")}
        </a>
      )}
      <Shown of={found}>
        {(page) => (
          <>
            {page.items.length === 0 && <p class="quiet">{t("chat.none_yet")}</p>}
            <ul>
              {page.items.map((one) => (
                <Entry key={one.id} conversation={one} isOpen={one.id === open} />
              ))}
            </ul>
            {page.next_cursor && limit < MORE && (
              <Button look="plain" onClick={() => setLimit(MORE)}>
                {t("chat.show_rows", { count: page.total - page.items.length })}
              </Button>
            )}
          </>
        )}
      </Shown>
    </nav>
  );
}

function Entry({ conversation, isOpen }: { conversation: Conversation; isOpen: boolean }) {
  const [tone, key] = STATES[conversation.state] ?? [];
  return (
    <li>
      <a href={`/chat/${conversation.id}`} aria-current={isOpen ? "true" : undefined}>
        <span class="chat-title">{conversation.title || t("chat.untitled")}</span>
        <span class="quiet">
          {ago(conversation.updated_at)} {key && <Badge tone={tone}>{t(key)}</Badge>}
        </span>
      </a>
    </li>
  );
}

/** Buttons about one conversation. */
export function ConversationActions({ id, title, onRename }: { id: string; title: string; onRename: () => void }) {
  const { route } = useLocation();
  const [isAsking, setAsking] = useState(false);
  const menu = useRef<HTMLDetailsElement>(null);
  const remove = async () => {
    const done = await attempt(
      ask(api.DELETE("/api/v1/sessions/{id}/messages", { params: { path: { id } } })).then(() => true),
    );
    if (!done) return;
    forgetDraft(id);
    setAsking(false);
    route("/chat");
  };
  const rename = () => {
    menu.current?.removeAttribute("open");
    onRename();
  };
  const exported = (format: string) => `/api/v1/sessions/${id}/messages/export?format=${format}`;
  return (
    <details class="chat-more" ref={menu}>
      <summary class="button">{t("chat.more")}</summary>
      <ul>
        {may("skills.run") && (
          <li>
            <Button look="plain" onClick={rename}>
              {t("chat.rename")}
            </Button>
          </li>
        )}
        <li>
          <a class="button plain" href={exported("markdown")} download={`${id}.md`} data-native>
            {t("chat.export_markdown")}
          </a>
        </li>
        <li>
          <a class="button plain" href={exported("json")} download={`${id}.json`} data-native>
            {t("chat.export_json")}
          </a>
        </li>
        <li>
          <Button look="plain" onClick={() => setAsking(true)}>
            <Icon name="trash" />
            {t("chat.delete")}
          </Button>
        </li>
      </ul>
      {isAsking && (
        <Dialog
          title={t("chat.delete_title")}
          onClose={() => setAsking(false)}
          answer={{ text: t("chat.delete"), look: "danger", onClick: remove }}
        >
          <p>{t("chat.delete_text", { title: title || t("chat.untitled") })}</p>
        </Dialog>
      )}
    </details>
  );
}

/** The field for another title, in place of nothing: Enter keeps it, Escape does not. */
export function Rename({ id, title, onDone }: { id: string; title: string; onDone: () => void }) {
  const [text, setText] = useState(title);
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.select(), []);
  const save = async () => {
    const params = { path: { id } };
    if (text.trim() && text !== title) {
      const body = { title: text };
      if (!(await attempt(ask(api.PATCH("/api/v1/conversations/{id}", { params, body }))))) return;
    }
    onDone();
  };
  return (
    <form
      class="chat-rename"
      onSubmit={(event) => {
        event.preventDefault();
        void save();
      }}
      onKeyDown={(event) => event.key === "Escape" && onDone()}
    >
      <input
        ref={field}
        aria-label={t("chat.title")}
        value={text}
        maxLength={80}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <Button look="primary" type="submit" disabled={!text.trim()}>
        {t("chat.save")}
      </Button>
      <Button onClick={onDone}>{t("states.cancel")}</Button>
    </form>
  );
}
