// A text of a run: JSON as a tree, Markdown formatted, everything else as it is. Long texts are shown in parts.
import { useMemo, useState } from "preact/hooks";
import { t } from "../../i18n";
import { Button, Choice } from "../../parts/controls";
import { Json } from "../../parts/json";
import { Markdown } from "../../parts/markdown";
import { say } from "../../parts/toast";

const FIRST_CHARS = 12_000;
/** Texts that are longer are not parsed as JSON: the tree of a huge answer would stop the page. */
const LONGEST_JSON = 1_000_000;
const MARKDOWN = /^(#{1,6} |[-*] |\d+\. |> |```|\|.*\|)|\*\*\S|`\S/m;

type Form = "rendered" | "source";

export function TextView({ text, label }: { text: string; label: string }) {
  const json = useMemo(() => parse(text), [text]);
  const isFormatted = json !== undefined || MARKDOWN.test(text.slice(0, FIRST_CHARS));
  const [form, setForm] = useState<Form>("rendered");
  const [isWhole, setWhole] = useState(false);
  const isCut = !isWhole && text.length > FIRST_CHARS && !(json !== undefined && form === "rendered");
  const shown = isCut ? text.slice(0, FIRST_CHARS) : text;
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    say(t("trace.copied"));
  };
  return (
    <div class="trace-text">
      <div class="trace-text-tools">
        {isFormatted && (
          <Choice<Form>
            label={`${label}: ${t("trace.look")}`}
            value={form}
            options={[
              { value: "rendered", label: t("trace.rendered") },
              { value: "source", label: t("trace.source") },
            ]}
            onChange={setForm}
          />
        )}
        {navigator.clipboard && (
          <Button look="plain" onClick={copy} aria-label={`${t("trace.copy")}: ${label}`}>
            {t("trace.copy")}
          </Button>
        )}
      </div>
      {form === "source" || !isFormatted ? (
        <pre tabIndex={0}>{shown}</pre>
      ) : json !== undefined ? (
        <Json value={json.value} />
      ) : (
        <Markdown text={shown} />
      )}
      {isCut && <Button onClick={() => setWhole(true)}>{t("trace.whole", { count: text.length })}</Button>}
    </div>
  );
}

function parse(text: string): { value: unknown } | undefined {
  if (text.length > LONGEST_JSON || !/^\s*[[{]/.test(text)) return undefined;
  try {
    return { value: JSON.parse(text) };
  } catch {
    return undefined;
  }
}
