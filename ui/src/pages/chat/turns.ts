// A conversation as turns: the question, what was decided, and what the model said and called. Built from the messages that
// are stored, and from the updates of a turn that is running.
import type { Shapes } from "../../api/client";

export type Message = Shapes["MessageShape"];

export interface Decision {
  action: string;
  skill: string | null;
  reason: string;
}

export interface Recommendation {
  skill: string;
  score: number;
  fit: string;
  why: string;
}

export interface Fault {
  code: string;
  message: string;
  hint?: string;
}

export interface Said {
  kind: "text";
  key: string;
  text: string;
  /** True while the model is writing it. */
  isLive?: boolean;
}

export interface Call {
  kind: "call";
  key: string;
  id: string;
  name: string;
  arguments: Record<string, unknown>;
  state: "running" | "done" | "refused" | "waiting" | "open";
  result?: unknown;
}

/** What an agent that was given a task writes and calls. Its own conversation keeps that, so only a running turn has it. */
export interface Helper {
  kind: "helper";
  key: string;
  role: string;
  parts: Part[];
}

export type Part = Said | Call | Helper;

export interface Turn {
  number: number;
  /** Undefined if the messages before are not loaded. */
  question?: string;
  at?: string;
  decision?: Decision;
  /** Why it ended without an answer, if that was stored. */
  error?: Fault;
  recommendations: Recommendation[];
  parts: Part[];
  model: string;
  steps: number;
  input: number;
  output: number;
  /** Null if no price is known. */
  cost: number | null;
  ms: number;
}

interface SkillState {
  enabled_skills: { name: string; slug: string; content_length: number; source_type: string }[];
  budget_used_chars: number;
  budget_max_chars: number;
}

export interface Ended {
  kind: "turn_ended";
  state: "done" | "waiting" | "stopped" | "failed";
  text: string;
  model: string;
  steps: number;
  input_tokens: number;
  output_tokens: number;
  cost_usd: number | null;
  approvals: string[];
  error: Fault | null;
}

type Work =
  | { kind: "text"; text: string }
  | { kind: "tool_started"; id: string; name: string; arguments: Record<string, unknown> }
  | { kind: "tool_ended"; id: string; name: string; ok: boolean; data: unknown };

export type Update =
  | Work
  | { kind: "decided"; decision: Decision; recommendations: Recommendation[] }
  | { kind: "helper_updated"; role: string; update: Work }
  | { kind: "approval_needed"; id: string; approval_id: string }
  | { kind: "skills_changed"; state: SkillState }
  | Ended;

export function newTurn(number: number, question?: string): Turn {
  return {
    number,
    question,
    recommendations: [],
    parts: [],
    model: "",
    steps: 0,
    input: 0,
    output: 0,
    cost: null,
    ms: 0,
  };
}

/** Return a function that groups messages into turns. A turn whose messages stay the same stays the same object. */
export function grouper(): (messages: readonly Message[]) => Turn[] {
  let before = new Map<number, { messages: Message[]; turn: Turn }>();
  return (messages) => {
    const groups = new Map<number, Message[]>();
    for (const message of messages) {
      const group = groups.get(message.turn);
      if (group) group.push(message);
      else groups.set(message.turn, [message]);
    }
    const now: typeof before = new Map();
    for (const [number, group] of groups) {
      const known = before.get(number);
      const isSame =
        known && known.messages.length === group.length && group.every((one, place) => one === known.messages[place]);
      now.set(number, isSame ? known : { messages: group, turn: build(number, group) });
    }
    before = now;
    return [...now.values()].map((one) => one.turn);
  };
}

function build(number: number, messages: Message[]): Turn {
  const turn = newTurn(number);
  for (const message of messages) {
    if (message.role === "user") {
      turn.question = message.text;
      turn.at = message.created_at;
      turn.decision = message.detail.decision as Decision | undefined;
      turn.error = message.detail.error as Fault | undefined;
      turn.recommendations = (message.detail.recommendations as Recommendation[] | undefined) ?? [];
    } else if (message.role === "assistant") addAnswer(turn, message);
    else
      setCall(turn.parts, message.call_id, {
        state: message.detail.ok ? "done" : "refused",
        result: parse(message.text),
      });
  }
  const [first, last] = [messages[0], messages.at(-1)];
  if (first && last) turn.ms = Date.parse(last.created_at) - Date.parse(first.created_at);
  return turn;
}

function addAnswer(turn: Turn, message: Message) {
  const { model, input_tokens, output_tokens, cost_usd } = message.detail as Record<string, unknown>;
  // Lookups that are made before the model is asked are not steps.
  if (!message.detail.research) turn.steps += 1;
  turn.model = String(model || turn.model);
  turn.input += Number(input_tokens) || 0;
  turn.output += Number(output_tokens) || 0;
  if (typeof cost_usd === "number") turn.cost = (turn.cost ?? 0) + cost_usd;
  if (message.text) turn.parts.push({ kind: "text", key: `m${message.number}`, text: message.text });
  for (const call of message.calls as unknown as Call[])
    turn.parts.push({
      kind: "call",
      key: call.id,
      id: call.id,
      name: call.name,
      arguments: call.arguments,
      state: "open",
    });
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function setCall(parts: Part[], id: string, change: Partial<Call>) {
  const place = parts.findIndex((part) => part.kind === "call" && part.id === id);
  if (place >= 0) parts[place] = { ...(parts[place] as Call), ...change };
}

/** Return a turn whose calls without a result wait for an approval. */
export function waiting(turn: Turn): Turn {
  const parts = turn.parts.map((part) =>
    part.kind === "call" && part.state === "open" ? { ...part, state: "waiting" as const } : part,
  );
  return { ...turn, parts };
}

/** Change a turn by an update of it. Parts that change become other objects. */
export function applyUpdate(turn: Turn, update: Update) {
  switch (update.kind) {
    case "decided":
      turn.decision = update.decision;
      turn.recommendations = update.recommendations;
      break;
    case "text":
    case "tool_started":
    case "tool_ended":
      addWork(turn.parts, update);
      break;
    case "helper_updated":
      addHelp(turn.parts, update.role, update.update);
      break;
    case "approval_needed":
      setCall(turn.parts, update.id, { state: "waiting" });
      break;
    case "turn_ended":
      settle(turn.parts);
      Object.assign(turn, {
        model: update.model,
        steps: update.steps,
        input: update.input_tokens,
        output: update.output_tokens,
        cost: update.cost_usd,
      });
      break;
  }
}

function addWork(parts: Part[], update: Work) {
  const last = parts.at(-1);
  if (update.kind === "text") {
    if (last?.kind === "text" && last.isLive) parts[parts.length - 1] = { ...last, text: last.text + update.text };
    else parts.push({ kind: "text", key: `t${parts.length}`, text: update.text, isLive: true });
  } else if (update.kind === "tool_started") {
    settle(parts);
    const { id, name } = update;
    if (parts.some((part) => part.kind === "call" && part.id === id)) setCall(parts, id, { state: "running" });
    else parts.push({ kind: "call", key: id, id, name, arguments: update.arguments, state: "running" });
  } else setCall(parts, update.id, { state: update.ok ? "done" : "refused", result: update.data });
}

/** Add what a helper did. Tasks are given one after the other, so all that follows one call is of the same helper. */
function addHelp(parts: Part[], role: string, update: Work) {
  const last = parts.at(-1);
  const known = last?.kind === "helper" && last.role === role ? last : undefined;
  const helper: Helper = {
    kind: "helper",
    key: known?.key ?? `h${parts.length}`,
    role,
    parts: [...(known?.parts ?? [])],
  };
  addWork(helper.parts, update);
  parts[known ? parts.length - 1 : parts.length] = helper;
}

/** The model has finished the text that it was writing. */
function settle(parts: Part[]) {
  parts.forEach((part, place) => {
    if (part.kind === "text" && part.isLive) parts[place] = { ...part, isLive: false };
  });
}
