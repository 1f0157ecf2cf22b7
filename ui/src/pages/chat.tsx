import { useEffect, useRef, useState } from "preact/hooks";
import { useLocation, useRoute } from "preact-iso";
import { api, ask, type Problem } from "../api/client";
import { onEvents } from "../api/live";
import { t } from "../i18n";
import { Button } from "../parts/controls";
import { Page } from "../parts/page";
import { asProblem, Empty, Loading, ProblemBox } from "../parts/states";
import { attempt } from "../parts/toast";
import { may } from "../state";
import "../style/chat.css";
import { ModelChoice, RoleChoice } from "./chat/choices";
import { Composer } from "./chat/composer";
import { ConversationActions, Conversations, Rename } from "./chat/list";
import { Log } from "./chat/log";
import { Pill, SkillsPanel } from "./chat/skills";
import { leaveTalk, type Talk, takeTalk } from "./chat/talk";

/** Conversations with the agent: the list, and one of them, or a new one. */
export default function ChatPage() {
  const { params } = useRoute();
  const id = params.id ?? "";
  const [talk, setTalk] = useState<Talk | undefined>(undefined);
  useEffect(() => {
    if (!id) return setTalk(undefined);
    setTalk(takeTalk(id));
    return () => leaveTalk(id);
  }, [id]);
  if (id) return talk?.id === id ? <OpenConversation key={id} talk={talk} /> : <Loading />;
  return <NewConversation />;
}

function OpenConversation({ talk }: { talk: Talk }) {
  const [isPanelOpen, setPanelOpen] = useState(false);
  const [isListOpen, setListOpen] = useState(false);
  const [isRenaming, setRenaming] = useState(false);
  const pill = useRef<HTMLDivElement>(null);
  const { conversation, session, phase, problem } = talk;
  const closePanel = () => {
    setPanelOpen(false);
    pill.current?.querySelector("button")?.focus();
  };
  const send = async (text: string) => {
    try {
      await talk.send(text);
      return true;
    } catch (error) {
      talk.failure.value = asProblem(error);
      return false;
    }
  };
  const choose = async (model: string) => {
    const params = { path: { id: talk.id } };
    const changed = await attempt(ask(api.PATCH("/api/v1/conversations/{id}", { params, body: { model } })));
    if (changed) conversation.value = changed;
    return changed !== undefined;
  };
  const question = talk.turns.value[0]?.question;
  const title = conversation.value?.title || question?.slice(0, 80) || t("chat.untitled");
  const isOpen = session.value !== undefined;
  return (
    <Page
      isWide
      title={title}
      actions={
        isOpen && (
          <>
            <ListToggle isOpen={isListOpen} onClick={() => setListOpen(!isListOpen)} />
            <div ref={pill}>
              <Pill
                used={session.value?.budget_used_chars ?? 0}
                max={session.value?.budget_max_chars ?? 0}
                isOpen={isPanelOpen}
                onClick={() => (isPanelOpen ? closePanel() : setPanelOpen(true))}
              />
            </div>
            <ConversationActions id={talk.id} title={title} onRename={() => setRenaming(true)} />
          </>
        )
      }
    >
      <div class={`chat ${isPanelOpen ? "with-skills" : ""} ${isListOpen ? "with-list" : ""}`}>
        <Conversations
          open={talk.id}
          changed={`${phase.value} ${conversation.value?.title} ${conversation.value?.turns}`}
        />
        <div class="chat-main">
          {isRenaming && <Rename id={talk.id} title={title} onDone={() => setRenaming(false)} />}
          {problem.value && <ProblemBox problem={problem.value} onRetry={() => talk.refresh()} />}
          {!problem.value && (
            <>
              <Log talk={talk} />
              {may("skills.run") && (
                <Composer
                  id={talk.id}
                  isRunning={phase.value === "running"}
                  onSend={send}
                  onStop={() => talk.stop()}
                  isFocused={talk.live.value !== undefined}
                >
                  <ModelChoice value={conversation.value?.model ?? session.value?.model ?? ""} onChange={choose} />
                  {session.value?.role && <span class="quiet">{t("chat.in_role", { role: session.value.role })}</span>}
                </Composer>
              )}
            </>
          )}
        </div>
        {isPanelOpen && <SkillsPanel talk={talk} onClose={closePanel} />}
      </div>
    </Page>
  );
}

/** Shows the conversations where there is no place for them beside the open one. */
function ListToggle({ isOpen, onClick }: { isOpen: boolean; onClick: () => void }) {
  return (
    <span class="chat-list-toggle">
      <Button aria-expanded={isOpen} onClick={onClick}>
        {t("chat.conversations")}
      </Button>
    </span>
  );
}

function NewConversation() {
  const { route } = useLocation();
  const [isListOpen, setListOpen] = useState(false);
  const [model, setModel] = useState("");
  const [role, setRole] = useState("");
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  useEffect(() => onEvents(["reconnected"], () => setProblem((last) => (last?.isOffline ? undefined : last))), []);
  const send = async (text: string) => {
    setProblem(undefined);
    let opened = "";
    try {
      const session = await ask(api.POST("/api/v1/sessions", { body: { conversation: "", role, model } }));
      opened = session.id;
      await takeTalk(session.id, session).send(text);
    } catch (error) {
      setProblem(asProblem(error));
      return false;
    } finally {
      if (opened) leaveTalk(opened);
    }
    route(`/chat/${opened}`);
    return true;
  };
  return (
    <Page
      isWide
      title={t("menu.chat")}
      actions={<ListToggle isOpen={isListOpen} onClick={() => setListOpen(!isListOpen)} />}
    >
      <div class={isListOpen ? "chat with-list" : "chat"}>
        <Conversations open="" changed="" />
        <div class="chat-main">
          <div class="chat-start">
            <Empty title={t("chat.start_title")}>
              <p>{t(may("skills.run") ? "chat.start_text" : "chat.may_not")}</p>
            </Empty>
            {problem && <ProblemBox problem={problem} />}
          </div>
          {may("skills.run") && (
            <Composer id="new" isRunning={false} onSend={send} onStop={() => undefined} isFocused>
              <ModelChoice value={model} onChange={setModel} />
              <RoleChoice value={role} onChange={setRole} />
            </Composer>
          )}
        </div>
      </div>
    </Page>
  );
}
