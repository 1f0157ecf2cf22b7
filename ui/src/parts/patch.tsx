// A unified diff of files, as the server writes it, with its lines marked.
import { useState } from "preact/hooks";
import { t } from "../i18n";
import { Button } from "./controls";

const SHOWN_LINES = 400;

const LOOKS: Record<string, string> = { "+": "added", "-": "removed", "@": "place" };

export function Patch({ text, label }: { text: string; label: string }) {
  const [isWhole, setWhole] = useState(false);
  const lines = text.replace(/\n$/, "").split("\n");
  const shown = isWhole ? lines : lines.slice(0, SHOWN_LINES);
  return (
    <div class="patch">
      <section class="scroll" tabIndex={0} aria-label={label}>
        <pre>
          {shown.map((line, number) => (
            <span key={number} class={lookOf(line)}>
              {line || " "}
              {"\n"}
            </span>
          ))}
        </pre>
      </section>
      {shown.length < lines.length && (
        <Button look="plain" onClick={() => setWhole(true)}>
          {t("card.more_lines", { count: lines.length - shown.length })}
        </Button>
      )}
    </div>
  );
}

function lookOf(line: string): string {
  if (line.startsWith("--- ") || line.startsWith("+++ ")) return "file";
  return LOOKS[line.charAt(0)] ?? "same";
}
