// What stands above the text of a file, by its kind: the variables of a template, the criteria of a rubric, the fields of a schema.
import { useMemo, useState } from "preact/hooks";
import { t } from "../../i18n";
import { Badge } from "../../parts/badge";
import { Code, type CodeLanguage, type Mark } from "../../parts/code";
import { Button, Field } from "../../parts/controls";
import { Dialog } from "../../parts/dialog";
import { Icon } from "../../parts/icons";
import { SIDECAR } from "./fields";
import type { Artifact } from "./preview";
import { readJson, writeJson } from "./yaml";

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
  // The file beside the document declares the artifacts that have no file of their own.
  const own = artifacts.filter((one) => (path === SIDECAR ? !one.path : one.path === path));
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
      {path === SIDECAR && <SkillSchemas yaml={text} isReadOnly={isReadOnly} onText={onText} />}
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

const SCHEMA_FIELDS = ["parameters", "output_schema"] as const;

/** The schemas of the whole skill, which are edited as JSON. */
function SkillSchemas({
  yaml,
  isReadOnly,
  onText,
}: {
  yaml: string;
  isReadOnly: boolean;
  onText: (text: string) => void;
}) {
  const [open, setOpen] = useState<(typeof SCHEMA_FIELDS)[number]>();
  return (
    <div class="editor-variables">
      {SCHEMA_FIELDS.map((name) => (
        <Button key={name} disabled={isReadOnly} onClick={() => setOpen(name)}>
          <Icon name="edit" />
          {t(`editor.schema_${name}`)}
        </Button>
      ))}
      {open && (
        <SchemaDialog
          title={t(`editor.schema_${open}`)}
          start={readJson(yaml, open)}
          onClose={() => setOpen(undefined)}
          onSave={(schema) => {
            onText(writeJson(yaml, open, schema));
            setOpen(undefined);
          }}
        />
      )}
    </div>
  );
}

const EXAMPLE = { type: "object", properties: { topic: { type: "string", description: "" } }, required: ["topic"] };
type SchemaValue = Parameters<typeof writeJson>[2];

interface SchemaProps {
  title: string;
  start: SchemaValue | undefined;
  onClose: () => void;
  onSave: (schema: SchemaValue) => void;
}

function SchemaDialog({ title, start, onClose, onSave }: SchemaProps) {
  const [text, setText] = useState(() => JSON.stringify(start ?? EXAMPLE, null, 2));
  const marks = jsonMarks("schema.json", text);
  const schema = marks.length ? undefined : (JSON.parse(text || "null") as unknown);
  const problem = marks.length ? t("editor.json_invalid") : schemaProblem(schema);
  return (
    <Dialog
      title={title}
      isWide
      onClose={onClose}
      actions={
        <Button look="primary" disabled={Boolean(problem)} onClick={() => onSave(schema as SchemaValue)}>
          {t("editor.schema_apply")}
        </Button>
      }
    >
      <Code label={title} value={text} language="json" marks={marks} onChange={setText} />
      <p role="status" class={problem ? "editor-bad" : "quiet"}>
        {problem || t("editor.schema_valid")}
      </p>
      {isObject(schema) && <SchemaTable label={t("editor.schema")} schema={schema} />}
    </Dialog>
  );
}

const TYPES = ["array", "boolean", "integer", "null", "number", "object", "string"];

/** Return the first fault of a JSON Schema that people make often; empty if there is none. The server checks all of it. */
export function schemaProblem(schema: unknown, where = ""): string {
  const name = where || "schema";
  if (typeof schema === "boolean") return "";
  if (!isObject(schema)) return t("editor.schema_not_object", { where: name });
  const types = schema.type === undefined ? [] : [schema.type].flat();
  const wrong = types.find((one) => typeof one !== "string" || !TYPES.includes(one));
  if (wrong !== undefined) return t("editor.schema_bad_type", { where: name, type: String(wrong) });
  if (schema.properties !== undefined && !isObject(schema.properties))
    return t("editor.schema_not_object", { where: `${name}.properties` });
  const isNames = Array.isArray(schema.required) && schema.required.every((one) => typeof one === "string");
  if (schema.required !== undefined && !isNames) return t("editor.schema_bad_required", { where: name });
  const inner: [string, unknown][] = Object.entries(isObject(schema.properties) ? schema.properties : {});
  if (schema.items !== undefined && !Array.isArray(schema.items)) inner.push(["items", schema.items]);
  for (const [key, one] of inner) {
    const found = schemaProblem(one, where ? `${where}.${key}` : key);
    if (found) return found;
  }
  return "";
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
