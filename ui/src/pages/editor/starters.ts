// What a new artifact of each kind begins with: its file, its text, and its entry in the file beside the document.
import { SIDECAR } from "./fields";
import { appendItem } from "./yaml";

export interface Starter {
  /** The kind, with the language where a kind has several. */
  id: string;
  kind: string;
  /** The path of its file; empty if it has none. */
  path: (name: string) => string;
  text: (name: string) => string;
  /** The lines of its entry, if its place alone does not say what it is. */
  entry?: (name: string, path: string) => string[];
}

const RUBRIC = (name: string) =>
  `${JSON.stringify(
    {
      rubric_id: name,
      version: "1.0.0",
      description: "",
      scoring_mode: "binary",
      criteria: [{ id: "first", name: "", description: "", pass_condition: "", fail_condition: "" }],
    },
    null,
    2,
  )}\n`;

const PYTHON = `async def execute(args: dict, ctx) -> dict:
    return {"success": True, "result": args}
`;
const TYPESCRIPT = `export async function execute(args: Record<string, unknown>, ctx: unknown) {
  return { success: true, result: args };
}
`;
const LISTED = (kind: string) => (name: string, path: string) => [
  `kind: ${kind}`,
  `name: ${JSON.stringify(name)}`,
  `path: ${JSON.stringify(path)}`,
];
const suffixed = (folder: string, suffix: string) => (name: string) =>
  `${folder}/${/\.[\w-]+$/.test(name) ? name : name + suffix}`;

export const STARTERS: Starter[] = [
  { id: "prompt_template", kind: "prompt_template", path: suffixed("prompts", ".j2"), text: () => "{{ topic }}\n" },
  {
    id: "json_generation",
    kind: "json_generation",
    path: () => "",
    text: () => "",
    entry: (name) => [
      "kind: json_generation",
      `name: ${JSON.stringify(name)}`,
      `prompt_id: ${JSON.stringify(name)}`,
      "output_schema:",
      "  type: object",
      "  properties:",
      "    answer: {type: string}",
      "  required: [answer]",
    ],
  },
  { id: "review", kind: "review", path: suffixed("rubrics", ".json"), text: RUBRIC },
  { id: "function_python", kind: "function", path: () => "execute.py", text: () => PYTHON },
  { id: "function_typescript", kind: "function", path: () => "execute.ts", text: () => TYPESCRIPT },
  { id: "code_template", kind: "code_template", path: suffixed("code", ".py"), text: () => 'print("Hello")\n' },
  {
    id: "http_call",
    kind: "http_call",
    path: () => "",
    text: () => "",
    entry: (name) => [
      "kind: http_call",
      `name: ${JSON.stringify(name)}`,
      'handler: "GET https://api.example.com/items/{{ id }}"',
    ],
  },
  {
    id: "cli_command",
    kind: "cli_command",
    path: () => "",
    text: () => "",
    entry: (name) => ["kind: cli_command", `name: ${JSON.stringify(name)}`, 'handler: "git log --oneline {{ range }}"'],
  },
  {
    id: "dspy_module",
    kind: "dspy_module",
    path: suffixed("dspy", ".json"),
    text: () => `${JSON.stringify({ template_id: "predict", signature: "question -> answer" }, null, 2)}\n`,
    entry: (name, path) => [...LISTED("dspy_module")(name, path), "fallback: answer"],
  },
  { id: "reference", kind: "reference", path: suffixed("references", ".md"), text: (name) => `# ${name}\n` },
  { id: "example", kind: "example", path: suffixed("examples", ".md"), text: (name) => `# ${name}\n` },
  { id: "script", kind: "script", path: suffixed("scripts", ".py"), text: () => 'print("Hello")\n' },
  {
    id: "approach",
    kind: "approach",
    path: suffixed("approaches", ".md"),
    text: (name) => `# ${name}\n`,
    entry: LISTED("approach"),
  },
  {
    id: "description",
    kind: "description",
    path: suffixed("descriptions", ".md"),
    text: (name) => `# ${name}\n`,
    entry: LISTED("description"),
  },
  { id: "asset", kind: "asset", path: suffixed("assets", ".txt"), text: () => "" },
];

/** Kinds that every client knows by their folder. All others need the file beside the document. */
const STANDARD = new Set(["reference", "script", "asset"]);

/** Return the texts of the files that a new artifact adds or changes; undefined if the list of artifacts cannot be changed here. */
export function startArtifact(
  starter: Starter,
  name: string,
  sidecar: string | undefined,
): { files: Record<string, string>; open: string } | undefined {
  const path = starter.path(name);
  const files: Record<string, string> = path ? { [path]: starter.text(name) } : {};
  if (starter.entry) {
    const changed = appendItem(sidecar ?? "", "artifacts", starter.entry(name, path));
    if (changed === undefined) return undefined;
    files[SIDECAR] = changed;
  } else if (!STANDARD.has(starter.kind) && sidecar === undefined)
    files[SIDECAR] = "# What Prowess knows about this skill beyond SKILL.md\n";
  return { files, open: path || SIDECAR };
}
