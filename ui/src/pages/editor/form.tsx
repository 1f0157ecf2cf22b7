// The frontmatter as a form. The text is the truth: each field is read from it, and a change goes into its lines.
import { useState } from "preact/hooks";
import { type MessageKey, t } from "../../i18n";
import { Field } from "../../parts/controls";
import { changeField, dropEmptyField, type FieldName, findField, type Texts } from "./fields";
import { isSame, type Value } from "./yaml";

interface Props {
  texts: Texts;
  /** The slug that the skill has, or would get. */
  slug: string;
  isNew: boolean;
  isReadOnly: boolean;
  /** The first problem of a field, by its name. */
  problems: Record<string, string>;
  onChange: (texts: Texts) => void;
}

type Look = "line" | "text" | "words" | "lines" | "runtime";

const BASICS: [FieldName, Look][] = [
  ["name", "line"],
  ["slug", "line"],
  ["title", "line"],
  ["description", "text"],
  ["tags", "words"],
];
const SHORT: [FieldName, Look][] = [
  ["version", "line"],
  ["license", "line"],
  ["author", "line"],
  ["compatibility", "line"],
];
const OFFERED: [FieldName, Look][] = [
  ["triggers", "lines"],
  ["keywords", "words"],
  ["intent_patterns", "lines"],
  ["when_to_use", "text"],
];
const REACH: [FieldName, Look][] = [
  ["allowed-tools", "line"],
  ["hosts", "lines"],
  ["env", "words"],
  ["roots", "lines"],
  ["requirements", "lines"],
  ["binaries", "words"],
  ["runtime", "runtime"],
];

export function FrontmatterForm(props: Props) {
  const isUsed = (fields: [FieldName, Look][]) => fields.some(([name]) => findField(props.texts, name).isThere);
  const group = (fields: [FieldName, Look][]) =>
    fields.map(([name, look]) => <OneField key={name} name={name} look={look} {...props} />);
  // A group that has values is open at first; later, the person decides.
  const [isOpen] = useState({ offered: isUsed(OFFERED), reach: isUsed(REACH) });
  return (
    <section class="editor-form" aria-label={t("editor.form")}>
      {group(BASICS)}
      <div class="editor-pair">{group(SHORT)}</div>
      <details open={isOpen.offered}>
        <summary>{t("editor.group_offered")}</summary>
        {group(OFFERED)}
      </details>
      <details open={isOpen.reach}>
        <summary>{t("editor.group_reach")}</summary>
        {group(REACH)}
      </details>
    </section>
  );
}

function OneField({
  name,
  look,
  texts,
  slug,
  isNew,
  isReadOnly,
  problems,
  onChange,
}: Props & { name: FieldName; look: Look }) {
  const field = findField(texts, name);
  // Slug and title are rarely written: the name and the first heading say them.
  if ((name === "title" || (name === "slug" && !isNew)) && !field.isThere) return null;
  const key = name.replace("-", "_");
  const isFixed = isReadOnly || !field.isEditable || (name === "slug" && !isNew);
  const hint = !field.isEditable
    ? t("editor.only_text")
    : name === "slug" && !isNew
      ? t("editor.slug_fixed")
      : hintOf(key);
  const change = (value: Value) => onChange(changeField(texts, name, value));
  const leave = () => onChange(dropEmptyField(texts, name));
  const shared = { readOnly: isFixed, onBlur: leave };
  const isListed = field.isList && Array.isArray(field.value);
  return (
    <Field label={t(`editor.field_${key}` as MessageKey)} hint={hint} problem={problems[name]}>
      {(ids) =>
        isListed && (look === "words" || look === "line") ? (
          <ListInput {...ids} {...shared} value={field.value as string[]} mark="," onValue={change} />
        ) : isListed ? (
          <ListInput {...ids} {...shared} value={field.value as string[]} mark={"\n"} onValue={change} />
        ) : look === "text" ? (
          <textarea
            {...ids}
            {...shared}
            rows={name === "description" ? 4 : 3}
            value={String(field.value)}
            onInput={(event) => change(event.currentTarget.value)}
          />
        ) : look === "runtime" ? (
          <select
            {...ids}
            disabled={isFixed}
            value={String(field.value)}
            onChange={(event) => {
              const chosen = event.currentTarget.value;
              const changed = changeField(texts, name, chosen);
              onChange(chosen ? changed : dropEmptyField(changed, name));
            }}
          >
            <option value="">{t("editor.runtime_wasm")}</option>
            {field.value === "wasm" && <option value="wasm">wasm</option>}
            <option value="native">{t("editor.runtime_native")}</option>
          </select>
        ) : (
          <input
            {...ids}
            {...shared}
            value={String(field.value)}
            placeholder={name === "slug" ? slug : undefined}
            onInput={(event) => change(event.currentTarget.value)}
          />
        )
      }
    </Field>
  );
}

const HINTS = ["name", "description", "tags", "triggers", "intent_patterns", "allowed_tools", "hosts", "env", "roots"];

function hintOf(key: string): string | undefined {
  return HINTS.includes(key) ? t(`editor.hint_${key}` as MessageKey) : undefined;
}

interface ListProps {
  id: string;
  value: string[];
  /** What stands between two items. */
  mark: "," | "\n";
  readOnly: boolean;
  onBlur: () => void;
  onValue: (value: string[]) => void;
}

/** Several values in one box. What is being typed stays as it is, also a comma at its end. */
function ListInput({ value, mark, onValue, ...rest }: ListProps) {
  const join = mark === "," ? ", " : "\n";
  const [typed, setTyped] = useState("");
  const split = (text: string) =>
    text
      .split(mark)
      .map((item) => item.trim())
      .filter(Boolean);
  const shown = isSame(split(typed), value) && typed ? typed : value.join(join);
  const type = (text: string) => {
    setTyped(text);
    onValue(split(text));
  };
  if (mark === ",") return <input {...rest} value={shown} onInput={(event) => type(event.currentTarget.value)} />;
  const rows = Math.min(8, Math.max(2, value.length + 1));
  return <textarea {...rest} rows={rows} value={shown} onInput={(event) => type(event.currentTarget.value)} />;
}
