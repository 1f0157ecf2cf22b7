// The events of the server. All tabs of a browser share one connection, because a browser opens only six to a server.
import { signal } from "@preact/signals";
import { api, ask, isSignedOut } from "./client";

export const EVENT_NAMES = [
  "skills_state_changed",
  "approval_required",
  "approval_resolved",
  "skill_loaded",
  "run_started",
  "run_state_changed",
  "run_finished",
  "decision_made",
  "source_synced",
  "job_changed",
  "composition_changed",
  "optimization_changed",
  "catalog_changed",
  "settings_changed",
  "conversation_changed",
] as const;
export type EventName = (typeof EVENT_NAMES)[number] | "reconnected";

export interface LiveEvent {
  name: string;
  data: Record<string, unknown>;
}

type Listener = (event: LiveEvent) => void;
const listeners = new Map<string, Set<Listener>>();

export type Connection = "connecting" | "open" | "lost";
/** How the connection is. A page shows when it is lost. */
export const connection = signal<Connection>("connecting");

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;

/** Call the listener for each event with one of these names. Return a function that ends it. */
export function onEvents(names: readonly EventName[], listener: Listener): () => void {
  for (const name of names) {
    const found = listeners.get(name) ?? new Set();
    found.add(listener);
    listeners.set(name, found);
  }
  return () => {
    for (const name of names) listeners.get(name)?.delete(listener);
  };
}

function deliver(event: LiveEvent) {
  for (const listener of listeners.get(event.name) ?? []) listener(event);
}

type Message = { event: LiveEvent; number: string } | { state: Connection } | "what is the state?";

/** The number of the newest event. Whoever connects next goes on after it. */
let last = "";

/** Remember the newest event. What happens before the stream of events is open comes after it, and is not lost. */
export async function markEvents() {
  try {
    last = String((await ask(api.GET("/api/v1/events/list", { params: { query: { limit: 1 } } }))).last);
  } catch {
    // Signed out, or the server does not answer. Pages load again when the stream opens.
  }
}

/** Follow the events since `markEvents`, in this tab or through the tab that already does. */
export function startLive() {
  // Locks exist on HTTPS and on this machine; elsewhere each tab has its own connection.
  if (!navigator.locks) {
    follow(receive);
    return;
  }
  const channel = new BroadcastChannel("prowess-events");
  let isLeading = false;
  channel.onmessage = ({ data }: MessageEvent<Message>) => {
    if (data !== "what is the state?") receive(data);
    else if (isLeading) channel.postMessage({ state: connection.value });
  };
  navigator.locks.request("prowess-events", () => {
    isLeading = true;
    follow((message) => {
      channel.postMessage(message);
      receive(message);
    });
    // The lock is held until the tab is closed. Then the next tab goes on.
    return new Promise<never>(() => {});
  });
  channel.postMessage("what is the state?");
}

function receive(message: Exclude<Message, string>) {
  if ("state" in message) setState(message.state);
  else {
    last = message.number || last;
    deliver(message.event);
  }
}

function setState(state: Connection) {
  const mayMiss = connection.value === "lost" || (connection.value === "connecting" && !last);
  connection.value = state;
  // Events do not say why they end. The answer to any request does: the server is gone, or the session has ended.
  if (state === "lost") ask(api.GET("/api/v1/me")).catch(() => undefined);
  if (state === "open" && mayMiss) deliver({ name: "reconnected", data: {} });
}

function follow(send: (message: Exclude<Message, string>) => void) {
  let wait = FIRST_WAIT_MS;
  const connect = () => {
    if (isSignedOut.value) return;
    const source = new EventSource(`/api/v1/events${last ? `?after=${last}` : ""}`);
    source.onopen = () => {
      wait = FIRST_WAIT_MS;
      send({ state: "open" });
    };
    source.onerror = () => {
      // The browser would retry too, but not after an answer with an error, and not more slowly each time.
      source.close();
      send({ state: "lost" });
      window.setTimeout(connect, wait);
      wait = Math.min(wait * 2, LONGEST_WAIT_MS);
    };
    for (const name of EVENT_NAMES)
      source.addEventListener(name, (event: MessageEvent<string>) => {
        const data = JSON.parse(event.data) as LiveEvent["data"];
        send({ event: { name, data }, number: event.lastEventId });
      });
    source.addEventListener("events_pruned", () => send({ event: { name: "reconnected", data: {} }, number: "" }));
  };
  connect();
}
