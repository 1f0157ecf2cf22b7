// One turn: the question, the decision with its reason, what the model said and called, and what it took.
import { useMemo, useState } from "preact/hooks";
import { cost, count, duration, fit, moment } from "../../format";
import { type MessageKey, t } from "../../i18n";
import { Badge, type Tone } from "../../parts/badge";
import { Button } from "../../parts/controls";
import { Markdown } from "../../parts/markdown";
import { Words } from "../../parts/states";
import type { Call, Helper, Part, Said, Turn } from "./turns";

/** Show a turn. It is drawn again only if it is another object. */
export function TurnView({ turn, isLive, isLast }: { turn: Turn; isLive: boolean; isLast: boolean }) {
  return useMemo(
    () => (
      <article class={isLive ? "chat-turn live" : "chat-turn"} aria-label={t("chat.turn", { count: turn.number })}>
        {/* To go from turn to turn by headings. */}
        <h2 class="hidden-text">{t("chat.turn", { count: turn.number })}</h2>
        {turn.question !== undefined && (
          <div class="chat-question" title={turn.at ? moment(turn.at) : undefined}>
            <span class="hidden-text">{t("chat.you")}: </span>
            {turn.question}
          </div>
        )}
        <DecisionLine turn={turn} />
        <div class="chat-answer">
          <span class="hidden-text">{t("chat.agent")}: </span>
          {turn.parts.map((part) => (
            <PartView key={part.key} part={part} />
          ))}
          {isLive && !turn.parts.some((part) => part.kind === "text" && part.isLive) && (
            <p class="chat-working quiet">{t(turn.decision ? "chat.working" : "chat.deciding")}</p>
          )}
        </div>
        {turn.error && !isLast && (
          <p class="quiet">
            <Words text={turn.error.message} />
          </p>
        )}
        {!isLive && turn.steps > 0 && <Spent turn={turn} />}
      </article>
    ),
    [turn, isLive, isLast],
  );
}

const ACTIONS: Record<string, MessageKey> = {
  activate: "chat.decided_activate",
  answer: "chat.decided_answer",
  research: "chat.decided_research",
  clarify: "chat.decided_clarify",
};

function DecisionLine({ turn }: { turn: Turn }) {
  const { decision, recommendations } = turn;
  if (!decision) return null;
  const key = ACTIONS[decision.action];
  return (
    <details class="chat-decision">
      <summary>
        <span class="chat-mark" aria-hidden="true">
          ◆
        </span>
        <span>
          <strong>{key ? t(key, { skill: decision.skill ?? "" }) : decision.action}</strong>{" "}
          <span class="quiet">{decision.reason}</span>
        </span>
      </summary>
      {recommendations.length === 0 && <p class="quiet">{t("chat.no_skill_fits")}</p>}
      <ul>
        {recommendations.map((one) => (
          <li key={one.skill}>
            <a href={`/skills/${encodeURIComponent(one.skill)}`}>{one.skill}</a>
            <Badge tone={one.fit === "offer" ? "good" : "plain"}>{fit(one.score)}</Badge>
            {one.why && <span class="quiet">{one.why}</span>}
          </li>
        ))}
      </ul>
    </details>
  );
}

function PartView({ part }: { part: Part }) {
  return useMemo(() => {
    if (part.kind === "call") return <CallView call={part} />;
    return part.kind === "helper" ? <HelperView helper={part} /> : <SaidView said={part} />;
  }, [part]);
}

function HelperView({ helper }: { helper: Helper }) {
  return (
    // biome-ignore lint/a11y/useSemanticElements: a fieldset is for the fields of a form.
    <div class="chat-helper" role="group" aria-label={t("chat.helper", { role: helper.role })}>
      <Badge tone="accent">{helper.role}</Badge>
      {helper.parts.map((part) => (
        <PartView key={part.key} part={part} />
      ))}
    </div>
  );
}

/** Laying out an answer of 20 MB takes a browser half a minute. */
const SHOWN_ANSWER = 50_000;

function SaidView({ said }: { said: Said }) {
  const [isWhole, setWhole] = useState(false);
  const isCut = !isWhole && said.text.length > SHOWN_ANSWER;
  const text = isCut ? said.text.slice(0, SHOWN_ANSWER) : said.text;
  // What is finished of a long text is not read again with every word that follows.
  const end = said.isLive ? finished(text) : text.length;
  return (
    <>
      {end > 0 && <Markdown text={text.slice(0, end)} />}
      {end < text.length && <Markdown text={text.slice(end)} />}
      {isCut && (
        <p>
          <Button onClick={() => setWhole(true)}>{t("chat.show_all")}</Button>
        </p>
      )}
    </>
  );
}

/** Return the length of the beginning of a text that later words do not change: to the last empty line outside of code. */
function finished(text: string): number {
  let end = 0;
  let isCode = false;
  let place = 0;
  for (const line of text.split("\n")) {
    if (/^\s*(```|~~~)/.test(line)) isCode = !isCode;
    place += line.length + 1;
    // An item of a list or an indented line may go on after an empty line.
    if (line.trim() === "" && !isCode && !/^\s|^[-*+\d]/.test(text.slice(place, place + 1))) end = place;
  }
  return Math.min(end, text.length);
}

const STATES: Record<Call["state"], [tone: Tone, key: MessageKey]> = {
  running: ["accent", "chat.call_running"],
  done: ["good", "chat.call_done"],
  refused: ["bad", "chat.call_refused"],
  waiting: ["warn", "chat.call_waiting"],
  open: ["plain", "chat.call_open"],
};

function CallView({ call }: { call: Call }) {
  const [tone, key] = STATES[call.state];
  const error = errorOf(call);
  return (
    <details class="chat-call">
      <summary>
        <Badge tone={tone}>{t(key)}</Badge>
        <code>{call.name}</code>
        <span class="quiet chat-brief">{error?.message ?? brief(call.arguments)}</span>
      </summary>
      <p class="chat-label">{t("chat.arguments")}</p>
      <Value value={call.arguments} />
      {call.result !== undefined && (
        <>
          <p class="chat-label">{t("chat.result")}</p>
          {error ? (
            <p>
              <Words text={[error.message, error.hint].filter(Boolean).join(" ")} />
            </p>
          ) : (
            <Value value={call.result} />
          )}
          <HelperLink call={call} />
        </>
      )}
    </details>
  );
}

/** Link to the conversation in which an agent did the task that it was given. */
function HelperLink({ call }: { call: Call }) {
  if (call.name !== "delegate" || typeof call.result !== "object" || call.result === null) return null;
  const { conversation, role } = call.result as { conversation?: unknown; role?: unknown };
  if (typeof conversation !== "string" || typeof role !== "string") return null;
  return (
    <p>
      <a href={`/chat/${encodeURIComponent(conversation)}`}>{t("chat.helper_conversation", { role })}</a>
    </p>
  );
}

function errorOf(call: Call): { message: string; hint?: string } | undefined {
  if (call.state !== "refused" || typeof call.result !== "object" || call.result === null) return undefined;
  const { error, hint } = call.result as { error?: { message?: unknown }; hint?: unknown };
  if (typeof error?.message !== "string") return undefined;
  return { message: error.message, hint: typeof hint === "string" ? hint : undefined };
}

function Spent({ turn }: { turn: Turn }) {
  return (
    <p class="chat-spent">
      {turn.model && <span>{turn.model}</span>}
      <span>{t("chat.steps", { count: turn.steps })}</span>
      <span title={t("chat.tokens_detail", { input: turn.input, output: turn.output })}>
        {t("chat.tokens", { tokens: count(turn.input + turn.output) })}
      </span>
      <span>{turn.cost === null ? t("chat.cost_unknown") : cost(turn.cost)}</span>
      {turn.ms > 0 && <span>{duration(turn.ms)}</span>}
    </p>
  );
}

const SHOWN_CHARS = 2_000;
const SHOWN_ROWS = 12;
const DEEPEST = 3;

/** Show a value of a tool, its arguments or its result, as rows instead of JSON. */
function Value({ value, depth = 0 }: { value: unknown; depth?: number }) {
  if (value === null || value === undefined || value === "") return <span class="quiet">–</span>;
  if (typeof value === "string") return <LongText text={value} />;
  if (typeof value !== "object") return <span>{String(value)}</span>;
  if (depth >= DEEPEST) return <LongText text={JSON.stringify(value)} />;
  if (Array.isArray(value)) return <Rows rows={value} depth={depth} />;
  const entries = Object.entries(value).filter(([, part]) => !isEmpty(part));
  if (!entries.length) return <span class="quiet">–</span>;
  return (
    <dl class="chat-value">
      {entries.slice(0, SHOWN_ROWS * 2).map(([name, part]) => (
        <div key={name} class={typeof part === "object" ? "nested" : undefined}>
          <dt>{name}</dt>
          <dd>
            <Value value={part} depth={depth + 1} />
          </dd>
        </div>
      ))}
      {entries.length > SHOWN_ROWS * 2 && <div>…</div>}
    </dl>
  );
}

function isEmpty(value: unknown): boolean {
  return value === null || value === "" || (typeof value === "object" && Object.keys(value as object).length === 0);
}

function Rows({ rows, depth }: { rows: unknown[]; depth: number }) {
  const [isWhole, setWhole] = useState(false);
  if (!rows.length) return <span class="quiet">–</span>;
  if (rows.every((row) => typeof row !== "object"))
    return <LongText text={rows.map((row) => String(row)).join(", ")} />;
  return (
    <>
      <ol class="chat-rows">
        {(isWhole ? rows : rows.slice(0, SHOWN_ROWS)).map((row, place) => (
          <li key={place}>
            <Value value={row} depth={depth + 1} />
          </li>
        ))}
      </ol>
      {!isWhole && rows.length > SHOWN_ROWS && (
        <Button look="plain" onClick={() => setWhole(true)}>
          {t("chat.show_rows", { count: rows.length - SHOWN_ROWS })}
        </Button>
      )}
    </>
  );
}

function LongText({ text }: { text: string }) {
  const [isWhole, setWhole] = useState(false);
  const isCut = !isWhole && text.length > SHOWN_CHARS;
  return (
    <>
      <span class="chat-text">{isCut ? `${text.slice(0, SHOWN_CHARS)}…` : text}</span>
      {isCut && (
        <Button look="plain" onClick={() => setWhole(true)}>
          {t("chat.show_all")}
        </Button>
      )}
    </>
  );
}

/** Return the arguments of a call on one short line. */
function brief(value: unknown, longest = 90): string {
  if (typeof value !== "object" || value === null) return "";
  const text = Object.entries(value)
    .map(([name, part]) => `${name}: ${typeof part === "string" ? part : JSON.stringify(part)}`)
    .join(", ");
  return text.length > longest ? `${text.slice(0, longest)}…` : text;
}
