// The events of the server. All tabs of a browser share one connection, because a browser opens only six to a server.
import { signal } from "@preact/signals";
import { isSignedOut } from "./client";

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

type Message = { event: LiveEvent } | { state: Connection };

/** Follow the events from now on, in this tab or through the tab that already does. */
export function startLive() {
  const channel = new BroadcastChannel("prowess-events");
  const receive = (message: Message) => {
    if ("event" in message) deliver(message.event);
    else setState(message.state);
  };
  channel.onmessage = (message: MessageEvent<Message>) => receive(message.data);
  const send = (message: Message) => {
    channel.postMessage(message);
    receive(message);
  };
  const lead = () => new Promise<never>(() => follow(send));
  // Locks exist on HTTPS and on this machine; elsewhere each tab has its own connection.
  if (navigator.locks) {
    navigator.locks.request("prowess-events", lead);
    // A tab that does not lead is as connected as the one that does, which says so only when it changes.
    navigator.locks.query().then((found) => {
      if (found.held?.some((lock) => lock.name === "prowess-events")) setState("open");
    });
  } else {
    lead();
  }
}

function setState(state: Connection) {
  const wasLost = connection.value === "lost";
  connection.value = state;
  if (state === "open" && wasLost) deliver({ name: "reconnected", data: {} });
}

function follow(send: (message: Message) => void) {
  let last = "";
  let wait = FIRST_WAIT_MS;
  const connect = () => {
    const source = new EventSource(`/api/v1/events${last ? `?after=${last}` : ""}`);
    source.onopen = () => {
      wait = FIRST_WAIT_MS;
      send({ state: "open" });
    };
    source.onerror = () => {
      // The browser would retry too, but not after an answer with an error, and not more slowly each time.
      source.close();
      send({ state: "lost" });
      if (isSignedOut.value) return;
      window.setTimeout(connect, wait);
      wait = Math.min(wait * 2, LONGEST_WAIT_MS);
    };
    for (const name of EVENT_NAMES)
      source.addEventListener(name, (event: MessageEvent<string>) => {
        last = event.lastEventId || last;
        send({ event: { name, data: JSON.parse(event.data) as LiveEvent["data"] } });
      });
    source.addEventListener("events_pruned", () => send({ event: { name: "reconnected", data: {} } }));
  };
  connect();
}
