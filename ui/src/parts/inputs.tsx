// Fields for the inputs of a run, made from the JSON Schema of a skill and the variables of its templates.
import { t } from "../i18n";
import { Field } from "./controls";

export interface InputField {
  name: string;
  type: "text" | "number" | "boolean" | "choice" | "json";
  hint: string;
  isRequired: boolean;
  options: string[];
  start: string;
}

type Json = Record<string, unknown>;
/** What was typed, by the name of the field. */
export type Typed = Record<string, string>;

/** Return the fields for an object schema, and for variables that it does not have. */
export function inputFields(schema: Json | null | undefined, variables: string[] = []): InputField[] {
  const properties = isObject(schema?.properties) ? schema.properties : {};
  const required = Array.isArray(schema?.required) ? schema.required : [];
  const fields = Object.entries(properties).map(([name, one]) =>
    fieldOf(name, isObject(one) ? one : {}, required.includes(name)),
  );
  const others = variables.filter((name) => !(name in properties));
  return [...fields, ...others.map((name) => fieldOf(name, { type: "string" }, false))];
}

function fieldOf(name: string, schema: Json, isRequired: boolean): InputField {
  const options = Array.isArray(schema.enum) ? schema.enum.map(String) : [];
  const kind = Array.isArray(schema.type) ? schema.type.find((one) => one !== "null") : schema.type;
  const type = options.length
    ? "choice"
    : kind === "boolean"
      ? "boolean"
      : kind === "number" || kind === "integer"
        ? "number"
        : kind === "array" || kind === "object"
          ? "json"
          : "text";
  const start = schema.default === undefined || schema.default === null ? "" : textOf(schema.default);
  return {
    name,
    type,
    isRequired,
    options,
    start,
    hint: typeof schema.description === "string" ? schema.description : "",
  };
}

const textOf = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value));
const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Return the inputs that were typed, and a message for each field that cannot be read. Empty fields are left out. */
export function readInputs(fields: InputField[], typed: Typed): { inputs: Json; problems: Record<string, string> } {
  const inputs: Json = {};
  const problems: Record<string, string> = {};
  for (const field of fields) {
    const text = typed[field.name] ?? field.start;
    if (text === "") {
      if (field.isRequired) problems[field.name] = t("run.missing");
      continue;
    }
    try {
      inputs[field.name] = field.type === "text" || field.type === "choice" ? text : JSON.parse(text);
    } catch {
      problems[field.name] = field.type === "number" ? t("run.not_number") : t("run.not_json");
    }
  }
  return { inputs, problems };
}

interface Props {
  fields: InputField[];
  typed: Typed;
  problems: Record<string, string>;
  onChange: (typed: Typed) => void;
}

export function Inputs({ fields, typed, problems, onChange }: Props) {
  return (
    <>
      {fields.map((field) => (
        <Field
          key={field.name}
          label={field.isRequired ? t("run.required", { name: field.name }) : field.name}
          hint={field.hint}
          problem={problems[field.name]}
        >
          {(ids) => (
            <Control
              ids={ids}
              field={field}
              value={typed[field.name] ?? field.start}
              onChange={(value) => onChange({ ...typed, [field.name]: value })}
            />
          )}
        </Field>
      ))}
    </>
  );
}

interface ControlProps {
  ids: { id: string };
  field: InputField;
  value: string;
  onChange: (value: string) => void;
}

function Control({ ids, field, value, onChange }: ControlProps) {
  if (field.type === "boolean")
    return (
      <input
        {...ids}
        type="checkbox"
        checked={value === "true"}
        onChange={(event) => onChange(String(event.currentTarget.checked))}
      />
    );
  if (field.type === "choice")
    return (
      <select {...ids} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
        <option value="" />
        {field.options.map((option) => (
          <option key={option} value={option}>
            {option}
          </option>
        ))}
      </select>
    );
  if (field.type === "number")
    return (
      <input {...ids} inputMode="decimal" value={value} onInput={(event) => onChange(event.currentTarget.value)} />
    );
  return (
    <textarea
      {...ids}
      class={field.type === "json" ? "run-json" : undefined}
      rows={field.type === "json" ? 4 : 2}
      value={value}
      placeholder={field.type === "json" ? "[] / {}" : undefined}
      onInput={(event) => onChange(event.currentTarget.value)}
    />
  );
}
