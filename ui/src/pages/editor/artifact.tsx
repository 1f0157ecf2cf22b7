// What stands above the text of a file, by its kind: the variables of a template, the criteria of a rubric, the fields of a schema.
import { useMemo } from "preact/hooks";
import { t } from "../../i18n";
import { Badge } from "../../parts/badge";
import type { CodeLanguage, Mark } from "../../parts/code";
import { Button, Field } from "../../parts/controls";
import { Icon } from "../../parts/icons";
import type { Artifact } from "./preview";

type Json = Record<string, unknown>;
const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const LANGUAGES: Record<string, CodeLanguage> = {
  md: "markdown",
  j2: "markdown",
  jinja: "markdown",
  mustache: "markdown",
  json: "json",
  yaml: "yaml",
  yml: "yaml",
  py: "python",
  ts: "typescript",
  js: "typescript",
  mjs: "typescript",
};

export function languageOf(path: string): CodeLanguage {
  if (/^skills?\.md$/i.test(path)) return "skill";
  return LANGUAGES[path.slice(path.lastIndexOf(".") + 1).toLowerCase()] ?? "text";
}

/** Return a mark where JSON is not valid. */
export function jsonMarks(path: string, text: string): Mark[] {
  if (languageOf(path) !== "json" || !text.trim()) return [];
  try {
    JSON.parse(text);
    return [];
  } catch (error) {
    const message = (error as Error).message;
    const at = Number(/position (\d+)/.exec(message)?.[1] ?? text.length);
    const before = text.slice(0, at).split("\n");
    const column = (before.at(-1)?.length ?? 0) + 1;
    return [{ line: before.length, column, severity: "error", message: t("editor.json_invalid") }];
  }
}

interface Props {
  path: string;
  text: string;
  artifacts: Artifact[];
  isReadOnly: boolean;
  onText: (text: string) => void;
}

export function ArtifactPanel({ path, text, artifacts, isReadOnly, onText }: Props) {
  const own = artifacts.filter((one) => one.path === path);
  const parsed = useMemo(() => {
    try {
      const value: unknown = languageOf(path) === "json" ? JSON.parse(text) : undefined;
      return isObject(value) ? value : undefined;
    } catch {
      return undefined;
    }
  }, [path, text]);
  const isRubric = parsed && Array.isArray(parsed.criteria);
  const schemas = own.flatMap((one) => schemasOf(one));
  if (parsed && isObject(parsed.properties)) schemas.push([t("editor.schema"), parsed]);
  return (
    <>
      {own.map((artifact) => (
        <p key={`${artifact.name} ${artifact.variant}`} class="editor-artifact">
          <Badge tone="accent">{artifact.kind}</Badge> <strong>{artifact.name}</strong>
          {artifact.variant && <Badge>{artifact.variant}</Badge>}
          {artifact.fallback && <span class="quiet">{t("editor.fallback", { name: artifact.fallback })}</span>}
        </p>
      ))}
      {own.some((one) => one.kind === "prompt_template") && <Variables artifacts={own} />}
      {isRubric && <RubricForm rubric={parsed} isReadOnly={isReadOnly} onText={onText} />}
      {schemas.map(([label, schema], number) => (
        <SchemaTable key={number} label={label} schema={schema} />
      ))}
    </>
  );
}

function Variables({ artifacts }: { artifacts: Artifact[] }) {
  const names = [...new Set(artifacts.flatMap((one) => one.variables))];
  return (
    <p class="editor-variables">
      <span class="quiet">{names.length ? t("editor.variables") : t("editor.no_variables")}</span>
      {names.map((name) => (
        <code key={name}>{name}</code>
      ))}
    </p>
  );
}

function schemasOf(artifact: Artifact): [string, Json][] {
  const more = artifact as Artifact & { vars_schema?: unknown; output_schema?: unknown };
  const found: [string, Json][] = [];
  if (isObject(more.vars_schema)) found.push([t("editor.schema_variables"), more.vars_schema]);
  if (isObject(more.output_schema)) found.push([t("editor.schema_output"), more.output_schema]);
  return found;
}

/** The fields of an object schema, at one glance. */
function SchemaTable({ label, schema }: { label: string; schema: Json }) {
  const properties = isObject(schema.properties) ? Object.entries(schema.properties) : [];
  const required = Array.isArray(schema.required) ? schema.required : [];
  if (!properties.length) return null;
  return (
    <details class="editor-schema">
      <summary>{label}</summary>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th>{t("editor.schema_field")}</th>
              <th>{t("editor.schema_type")}</th>
              <th>{t("editor.schema_about")}</th>
            </tr>
          </thead>
          <tbody>
            {properties.map(([name, one]) => (
              <tr key={name}>
                <td>
                  <code>{name}</code> {required.includes(name) && <Badge>{t("editor.schema_required")}</Badge>}
                </td>
                <td>{isObject(one) ? [one.type ?? ""].flat().join(", ") : ""}</td>
                <td>{isObject(one) && typeof one.description === "string" ? one.description : ""}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

const TEXTS = ["name", "description", "pass_condition", "fail_condition"] as const;

/** The criteria of a rubric as a form. A change writes the JSON again; fields that the form does not know stay. */
function RubricForm({
  rubric,
  isReadOnly,
  onText,
}: {
  rubric: Json;
  isReadOnly: boolean;
  onText: (text: string) => void;
}) {
  const criteria = (rubric.criteria as unknown[]).filter(isObject);
  const write = (changed: Json[]) => onText(`${JSON.stringify({ ...rubric, criteria: changed }, null, 2)}\n`);
  const change = (index: number, values: Json) =>
    write(criteria.map((one, number) => (number === index ? { ...one, ...values } : one)));
  const textOf = (value: unknown) => (typeof value === "string" ? value : "");
  return (
    <details class="editor-rubric" open>
      <summary>{t("editor.criteria", { count: criteria.length })}</summary>
      {criteria.map((criterion, index) => (
        <fieldset key={index}>
          <legend>
            <code>{textOf(criterion.id) || index + 1}</code>
          </legend>
          <div class="editor-rubric-fields">
            {TEXTS.map((name) => (
              <Field key={name} label={t(`editor.rubric_${name}`)}>
                {(ids) => (
                  <input
                    {...ids}
                    readOnly={isReadOnly}
                    value={textOf(criterion[name])}
                    onInput={(event) => change(index, { [name]: event.currentTarget.value })}
                  />
                )}
              </Field>
            ))}
          </div>
          {!isReadOnly && criteria.length > 1 && (
            <Button look="plain" onClick={() => write(criteria.filter((_, number) => number !== index))}>
              <Icon name="trash" />
              {t("editor.rubric_remove")}
            </Button>
          )}
        </fieldset>
      ))}
      {!isReadOnly && (
        <Button
          onClick={() =>
            write([
              ...criteria,
              {
                id: `criterion-${criteria.length + 1}`,
                name: "",
                description: "",
                pass_condition: "",
                fail_condition: "",
              },
            ])
          }
        >
          <Icon name="plus" />
          {t("editor.rubric_add")}
        </Button>
      )}
    </details>
  );
}
