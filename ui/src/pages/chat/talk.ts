// One conversation as the server has it, and the turn that is running in it, in this browser or elsewhere.
import { batch, computed, effect, signal } from "@preact/signals";
import { api, ask, Problem, type Shapes } from "../../api/client";
import { onEvents } from "../../api/live";
import { onSettled } from "../../api/load";
import { openStream, type StreamEvent } from "../../api/stream";
import { asProblem } from "../../parts/states";
import { applyUpdate, type Ended, grouper, type Message, newTurn, type Turn, type Update, waiting } from "./turns";

type Conversation = Shapes["ConversationShape"];
type Session = Shapes["SessionShape"];

const FIRST_MESSAGES = 60;
const MORE_MESSAGES = 200;
/** Words of a model come faster than a page has to be drawn. */
const DRAW_MS = 50;
const POLL_MS = 1_000;

export type Phase = "loading" | "idle" | "running" | "waiting" | "stopped" | "failed" | "lost";

export class Talk {
  readonly session = signal<Session | undefined>(undefined);
  readonly conversation = signal<Conversation | undefined>(undefined);
  readonly messages = signal<readonly Message[]>([]);
  readonly isLoaded = signal(false);
  /** Why the conversation cannot be shown. */
  readonly problem = signal<Problem | undefined>(undefined);
  /** The turn that is running and shown here as it happens. */
  readonly live = signal<Turn | undefined>(undefined);
  /** What was received of a turn when the connection was lost. */
  readonly kept = signal<Turn | undefined>(undefined);
  /** How the last turn that was shown here ended. */
  readonly ended = signal<Ended | undefined>(undefined);
  /** Why a message was not taken, or a turn broke off. */
  readonly failure = signal<Problem | undefined>(undefined);
  /** What a screen reader says: whole parts, not single words. */
  readonly spoken = signal("");
  readonly hasOlder = signal(false);

  private readonly group = grouper();
  readonly turns = computed<Turn[]>(() => {
    const stored = this.group(this.messages.value);
    const live = this.live.value ?? this.kept.value;
    if (live) return [...stored.filter((turn) => turn.number < live.number), live];
    const last = stored.at(-1);
    return last && this.conversation.value?.state === "waiting" ? [...stored.slice(0, -1), waiting(last)] : stored;
  });
  readonly phase = computed<Phase>(() => {
    if (this.live.value) return "running";
    if (isPassing(this.failure.value)) return "lost";
    if (!this.isLoaded.value) return "loading";
    return (this.conversation.value?.state as Phase | undefined) ?? "idle";
  });
  readonly approvals = computed<string[]>(() =>
    this.phase.value === "waiting" ? (this.conversation.value?.approvals ?? []) : [],
  );

  private olderCursor: string | null = null;
  private abort = new AbortController();
  private readonly closed = new AbortController();
  private timer = 0;

  constructor(
    readonly id: string,
    opened?: Session,
  ) {
    const stopEvents = onEvents(
      ["decision_made", "approval_resolved", "skills_state_changed", "conversation_changed", "reconnected"],
      () => void this.refresh(),
    );
    // A skill that was changed or deleted may be enabled here. Many change at once.
    const stopChanges = onSettled(["catalog_changed"], () => void this.refresh());
    this.closed.signal.addEventListener("abort", () => {
      stopEvents();
      stopChanges();
      window.clearTimeout(this.timer);
    });
    if (opened) {
      this.session.value = opened;
      this.isLoaded.value = true;
    } else void this.refresh();
  }

  /** Stop showing the conversation. A turn that runs goes on. */
  close() {
    this.closed.abort();
    this.abort.abort();
  }

  /** Read the conversation again, and go on with what is running or was answered. */
  async refresh() {
    if (this.live.value || this.closed.signal.aborted) return;
    try {
      await this.read();
    } catch (error) {
      if (this.closed.signal.aborted) return;
      if (this.isLoaded.value) this.failure.value = asProblem(error);
      else this.problem.value = asProblem(error);
      return;
    }
    this.proceed();
  }

  /** Show what is stored, in place of the turn that was shown as it happened. */
  private async read(shown?: Turn) {
    const path = { params: { path: { id: this.id } }, signal: this.closed.signal };
    const [session, conversation, newest] = await Promise.all([
      ask(api.GET("/api/v1/sessions/{id}", path)),
      ask(api.GET("/api/v1/conversations/{id}", path)).catch(unlessMissing),
      this.readNewest(),
    ]);
    // A turn that began meanwhile is newer than what was read.
    if (this.closed.signal.aborted || (this.live.value && !shown)) return;
    batch(() => {
      this.session.value = session;
      this.conversation.value = conversation;
      this.messages.value = newest;
      this.isLoaded.value = true;
      this.live.value = undefined;
      this.kept.value = undefined;
      this.problem.value = undefined;
      if (isPassing(this.failure.value)) this.failure.value = undefined;
    });
  }

  private proceed() {
    window.clearTimeout(this.timer);
    const state = this.conversation.value?.state;
    if (state === "running") void this.follow();
    else if (state === "waiting") void this.resumeIfAnswered();
  }

  /** Return the messages, the newest read again. Those that did not change stay the same objects. */
  private async readNewest(): Promise<readonly Message[]> {
    const known = new Map(this.messages.value.map((message) => [message.number, message]));
    const last = this.messages.value.at(-1)?.number ?? 0;
    let cursor: string | undefined;
    while (true) {
      const limit = known.size ? MORE_MESSAGES : FIRST_MESSAGES;
      const page = await this.readPage(limit, cursor);
      for (const message of page.items)
        if (JSON.stringify(known.get(message.number)) !== JSON.stringify(message)) known.set(message.number, message);
      const lowest = page.items.at(-1)?.number ?? 0;
      if (last === 0) this.setOlder(page.next_cursor);
      if (last === 0 || lowest <= last + 1 || !page.next_cursor) break;
      cursor = page.next_cursor;
    }
    return [...known.values()].sort((one, other) => one.number - other.number);
  }

  private readPage(limit: number, cursor?: string) {
    const query = { limit, order: "newest" as const, ...(cursor ? { cursor } : {}) };
    const params = { path: { id: this.id }, query };
    return ask(api.GET("/api/v1/sessions/{id}/messages", { params, signal: this.closed.signal }));
  }

  private setOlder(cursor: string | null) {
    this.olderCursor = cursor;
    this.hasOlder.value = cursor !== null;
  }

  /** Read the messages before those that are shown. */
  async loadOlder() {
    if (!this.olderCursor) return;
    const page = await this.readPage(MORE_MESSAGES, this.olderCursor);
    this.messages.value = [...page.items.reverse(), ...this.messages.value];
    this.setOlder(page.next_cursor);
  }

  /** Send a message. Throw a `Problem` if the server does not take it; otherwise the turn goes on by itself. */
  async send(message: string, model = "") {
    const number = (this.turns.value.at(-1)?.number ?? 0) + 1;
    await this.begin("messages", { message, model, background: true }, newTurn(number, message));
  }

  /** Go on with the last turn. */
  async resume() {
    const last = this.turns.value.at(-1);
    if (!last) return;
    await this.begin("messages/resume", { background: true }, { ...last, parts: [...last.parts] });
  }

  /** Go on if nobody has to be asked any more: the answers may have been given anywhere. */
  private async resumeIfAnswered() {
    const ids = this.conversation.value?.approvals ?? [];
    if (!ids.length) return;
    try {
      const found = await Promise.all(
        ids.map((id) =>
          ask(api.GET("/api/v1/approvals/{id}", { params: { path: { id } }, signal: this.closed.signal })),
        ),
      );
      if (found.every((one) => one.state !== "pending") && !this.live.value && !this.closed.signal.aborted)
        await this.resume();
    } catch (error) {
      const problem = asProblem(error);
      // Another browser was faster, and shows the same turn.
      if (problem.status === 409) this.timer = window.setTimeout(() => void this.refresh(), POLL_MS);
      else if (!this.closed.signal.aborted) this.failure.value = problem;
    }
  }

  /** Stop the turn that is running. What was said so far is kept. */
  async stop() {
    const params = { path: { id: this.id } };
    try {
      await ask(api.POST("/api/v1/sessions/{id}/messages/stop", { params }));
    } catch (error) {
      this.failure.value = asProblem(error);
    }
  }

  /** Show a turn that began elsewhere, or before this page was loaded, from its beginning. */
  private async follow() {
    if (this.live.value) return;
    this.abort = new AbortController();
    try {
      const path = `/api/v1/sessions/${this.id}/messages/stream`;
      const frames = await openStream(path, { signal: this.abort.signal });
      const first = await frames.next();
      const begun = first.value as StreamEvent | undefined;
      const { here, message, after } = (begun?.data ?? {}) as { here?: boolean; message?: string; after?: number };
      if (begun && here && !this.live.value) {
        const before = this.group(this.messages.value.filter((one) => one.number <= (after ?? 0)));
        const last = before.at(-1) ?? newTurn(0);
        const turn = message ? newTurn(last.number + 1, message) : { ...last, parts: [...last.parts] };
        batch(() => {
          this.live.value = turn;
          this.ended.value = undefined;
        });
        await this.play(frames, turn);
        return;
      }
      // Another process works on it: what it stores is read as it comes.
      for await (const frame of frames) if (frame.name === "message") this.add(frame.data as Message);
    } catch (error) {
      if (this.abort.signal.aborted) return;
      this.failure.value = asProblem(error);
    }
    this.timer = window.setTimeout(() => void this.refresh(), POLL_MS);
  }

  private add(message: Message) {
    const others = this.messages.value.filter((one) => one.number !== message.number);
    this.messages.value = [...others, message].sort((one, other) => one.number - other.number);
  }

  private async begin(path: string, body: object, turn: Turn) {
    if (this.live.value) throw new Problem(409, "conflict", "");
    this.abort = new AbortController();
    batch(() => {
      this.live.value = turn;
      this.ended.value = undefined;
      this.failure.value = undefined;
    });
    try {
      const frames = await openStream(`/api/v1/sessions/${this.id}/${path}`, { body, signal: this.abort.signal });
      void this.play(frames, turn);
    } catch (error) {
      this.live.value = undefined;
      throw error;
    }
  }

  private async play(frames: AsyncGenerator<StreamEvent>, turn: Turn) {
    const started = Date.now();
    let drawing = 0;
    const draw = () => {
      drawing = 0;
      if (this.live.value) this.live.value = { ...turn, parts: [...turn.parts], ms: Date.now() - started };
    };
    try {
      for await (const frame of frames) {
        if (frame.name === "error") throw problemOfFrame(frame);
        this.take(turn, frame.data as Update);
        drawing ||= window.setTimeout(draw, DRAW_MS);
      }
      if (!this.ended.value) throw new Problem(0, "offline", "");
    } catch (error) {
      if (!this.abort.signal.aborted) this.failure.value = asProblem(error);
    } finally {
      window.clearTimeout(drawing);
      await this.leave(turn);
    }
  }

  private take(turn: Turn, update: Update) {
    applyUpdate(turn, update);
    if (update.kind === "skills_changed") {
      const session = this.session.peek();
      if (session)
        this.session.value = {
          ...session,
          ...update.state,
          enabled_skills: update.state.enabled_skills.map((one) => ({
            ...session.enabled_skills.find((known) => known.slug === one.slug),
            ...one,
          })) as Session["enabled_skills"],
        };
    } else if (update.kind === "turn_ended") {
      this.ended.value = update;
      this.spoken.value = update.text || update.error?.message || "";
    }
  }

  private async leave(turn: Turn) {
    try {
      await this.read(turn);
      this.proceed();
    } catch (error) {
      // The server is gone. What was received stays in view until it is back.
      batch(() => {
        this.kept.value = turn;
        this.live.value = undefined;
        this.failure.value = asProblem(error);
      });
    }
  }
}

/** Return True for problems of a server that is stopped or starting. */
function isPassing(problem: Problem | undefined): boolean {
  return problem !== undefined && (problem.isOffline || problem.code === "try-later");
}

function unlessMissing(error: unknown): undefined {
  // A session in which nothing was said yet.
  if (error instanceof Problem && error.status === 404) return undefined;
  throw error;
}

function problemOfFrame(frame: StreamEvent): Problem {
  const data = frame.data as Record<string, unknown>;
  return new Problem(
    Number(data.status) || 500,
    String(data.code ?? ""),
    String(data.detail ?? ""),
    String(data.hint ?? ""),
  );
}

const talks = new Map<string, { talk: Talk; users: number }>();

/**
 * Return the conversation with this id, shared by all who use it. A turn that runs in it goes on when a page is left.
 *
 * `opened` is the session if it was just opened: nothing was said in it.
 */
export function takeTalk(id: string, opened?: Session): Talk {
  const known = talks.get(id) ?? { talk: new Talk(id, opened), users: 0 };
  known.users += 1;
  talks.set(id, known);
  return known.talk;
}

export function leaveTalk(id: string) {
  const known = talks.get(id);
  if (!known) return;
  known.users -= 1;
  const stop = effect(() => {
    if (known.talk.live.value) return;
    if (known.users === 0 && talks.get(id) === known) {
      talks.delete(id);
      known.talk.close();
    }
    queueMicrotask(() => stop());
  });
}
