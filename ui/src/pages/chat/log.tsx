// What was said, the newest at the end. The view follows it unless the person has scrolled up.
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { t } from "../../i18n";
import { Button } from "../../parts/controls";
import { hintOf, Loading, ProblemBox, Words } from "../../parts/states";
import { attempt } from "../../parts/toast";
import { may } from "../../state";
import { ApprovalInChat } from "./approval";
import type { Talk } from "./talk";
import { TurnView } from "./turn";
import type { Fault } from "./turns";

/** This near to the end, the view follows. */
const NEAR_PX = 60;
const SPOKEN_CHARS = 2_000;

export function Log({ talk }: { talk: Talk }) {
  const box = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const [isFollowing, setFollowing] = useState(true);
  const following = useRef(true);
  /** Where the view was put while it follows. */
  const placed = useRef(-1);
  const toEnd = () => {
    if (!box.current) return;
    box.current.scrollTop = box.current.scrollHeight;
    // A request that is longer than the window is read from its beginning.
    const card = box.current.querySelector(".approval-card");
    if (card && card.clientHeight > box.current.clientHeight) {
      // `scrollIntoView` would move the page, too, where it is higher than the window.
      box.current.scrollTop += card.getBoundingClientRect().top - box.current.getBoundingClientRect().top;
    }
    placed.current = box.current.scrollTop;
  };
  useLayoutEffect(() => {
    const watched = new ResizeObserver(() => following.current && toEnd());
    if (content.current) watched.observe(content.current);
    if (box.current) watched.observe(box.current);
    return () => watched.disconnect();
  }, []);
  const scrolled = () => {
    const { scrollTop, scrollHeight, clientHeight } = box.current as HTMLDivElement;
    const isAtEnd = scrollHeight - scrollTop - clientHeight < NEAR_PX || Math.abs(scrollTop - placed.current) < 2;
    following.current = isAtEnd;
    setFollowing(isAtEnd);
  };
  const older = async () => {
    const element = box.current as HTMLDivElement;
    const fromEnd = element.scrollHeight - element.scrollTop;
    await attempt(talk.loadOlder());
    // What the person was reading stays where it is.
    requestAnimationFrame(() => {
      element.scrollTop = element.scrollHeight - fromEnd;
    });
  };
  const live = talk.live.value;
  const turns = talk.turns.value;
  return (
    <div class="chat-scroll">
      {/* Screen readers hear whole answers, below, instead of every word. */}
      <div
        class="chat-log"
        role="log"
        aria-live="off"
        aria-label={t("chat.log")}
        tabIndex={0}
        ref={box}
        onScroll={scrolled}
      >
        <div ref={content}>
          {talk.hasOlder.value && (
            <p class="chat-older">
              <Button onClick={older}>{t("chat.older")}</Button>
            </p>
          )}
          {!talk.isLoaded.value && !live && <Loading />}
          {turns.map((turn, place) => (
            <TurnView key={turn.number} turn={turn} isLive={turn === live} isLast={place === turns.length - 1} />
          ))}
          <Standing talk={talk} />
        </div>
      </div>
      {!isFollowing && (
        <div class="chat-latest">
          <Button onClick={toEnd}>{t("chat.latest")}</Button>
        </div>
      )}
      <div class="hidden-text" aria-live="polite">
        {talk.spoken.value.slice(0, SPOKEN_CHARS)}
      </div>
    </div>
  );
}

/** What the last turn waits for, or why it ended without an answer. */
function Standing({ talk }: { talk: Talk }) {
  const phase = talk.phase.value;
  const failure = talk.failure.value;
  const error = talk.ended.value?.error ?? (talk.conversation.value?.error as Fault | null | undefined);
  const fault = error?.code === "stopped" ? undefined : error;
  const goOn = () =>
    talk.resume().catch((error) => {
      talk.failure.value = error;
    });
  return (
    <>
      {talk.approvals.value.map((id) => (
        <ApprovalInChat key={id} id={id} onAnswered={() => talk.refresh()} />
      ))}
      {failure && <ProblemBox problem={failure} onRetry={failure.isOffline ? () => talk.refresh() : undefined} />}
      {(phase === "stopped" || phase === "failed") && (
        <div class={phase === "failed" ? "problem" : "chat-stopped"} role="alert">
          <p>
            <Words text={fault?.message || t(phase === "failed" ? "chat.failed" : "chat.stopped")} />
          </p>
          {fault?.hint && (
            <p class="quiet">
              <Words text={hintOf(fault)} />
            </p>
          )}
          {may("skills.run") && <Button onClick={goOn}>{t(phase === "failed" ? "states.retry" : "chat.go_on")}</Button>}
        </div>
      )}
    </>
  );
}
