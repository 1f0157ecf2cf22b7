// A JSON value as a tree: what lies deep is folded, and what is long is shown in parts.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { t } from "../i18n";
import { Button } from "./controls";

const OPEN_DEPTH = 2;
const FIRST_ENTRIES = 50;
const SMALL_ENTRIES = 6;
const FIRST_CHARS = 2_000;

export function Json({ value }: { value: unknown }) {
  return (
    <div class="json">
      <Value value={value} depth={0} />
    </div>
  );
}

function Value({ value, depth, name }: { value: unknown; depth: number; name?: string }) {
  const isNode = typeof value === "object" && value !== null;
  const key = name === undefined ? null : <span class="key">{name}: </span>;
  if (!isNode)
    return (
      <>
        {key}
        {typeof value === "string" ? <LongText text={value} /> : <span class="atom">{String(value)}</span>}
      </>
    );
  const entries = Object.entries(value);
  if (entries.length === 0)
    return (
      <>
        {key}
        {Array.isArray(value) ? "[]" : "{}"}
      </>
    );
  if (depth === 0) return <Entries entries={entries} depth={depth} />;
  return <Fold name={key} value={value} entries={entries} depth={depth} />;
}

interface FoldProps {
  name: ComponentChildren;
  value: object;
  entries: [string, unknown][];
  depth: number;
}

/** An object or a list that can be unfolded. What is folded does not exist on the page, however large it is. */
function Fold({ name, value, entries, depth }: FoldProps) {
  const [isOpen, setOpen] = useState(() => depth < OPEN_DEPTH || isSmall(value));
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {name}
        <span class="quiet">{t("trace.items", { count: entries.length })}</span>
      </summary>
      {isOpen && <Entries entries={entries} depth={depth} />}
    </details>
  );
}

function isSmall(value: object): boolean {
  const entries = Object.values(value);
  return entries.length <= SMALL_ENTRIES && entries.every((one) => typeof one !== "object" || one === null);
}

function Entries({ entries, depth }: { entries: [string, unknown][]; depth: number }) {
  const [shown, setShown] = useState(FIRST_ENTRIES);
  return (
    <ul>
      {entries.slice(0, shown).map(([name, value]) => (
        <li key={name}>
          <Value value={value} depth={depth + 1} name={name} />
        </li>
      ))}
      {entries.length > shown && (
        <li>
          <Button look="plain" onClick={() => setShown(shown * 4)}>
            {t("trace.rest", { count: entries.length - shown })}
          </Button>
        </li>
      )}
    </ul>
  );
}

function LongText({ text }: { text: string }) {
  const [isWhole, setWhole] = useState(false);
  if (isWhole || text.length <= FIRST_CHARS) return <span class="text">{text}</span>;
  return (
    <>
      <span class="text">{text.slice(0, FIRST_CHARS)}…</span>
      <Button look="plain" onClick={() => setWhole(true)}>
        {t("trace.whole", { count: text.length })}
      </Button>
    </>
  );
}
