// A value of a tool, its arguments or its result, as rows instead of JSON.
import { useState } from "preact/hooks";
import { t } from "../../i18n";
import { Button } from "../../parts/controls";

const SHOWN_CHARS = 2_000;
const SHOWN_ROWS = 12;
const DEEPEST = 3;

export function Value({ value, depth = 0 }: { value: unknown; depth?: number }) {
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
export function brief(value: unknown, longest = 90): string {
  if (typeof value !== "object" || value === null) return "";
  const text = Object.entries(value)
    .map(([name, part]) => `${name}: ${typeof part === "string" ? part : JSON.stringify(part)}`)
    .join(", ");
  return text.length > longest ? `${text.slice(0, longest)}…` : text;
}
