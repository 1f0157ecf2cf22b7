// Values of settings as the text of a field, and back. What is not valid stays a text, and the server says why.

export type Kind = "flag" | "choice" | "number" | "list" | "pairs" | "json";

export function kindOf(name: string, fallback: unknown, choices: string[]): Kind {
  if (choices.length > 0) return "choice";
  if (name === "roles") return "json";
  if (typeof fallback === "boolean") return "flag";
  if (typeof fallback === "number") return "number";
  if (Array.isArray(fallback)) return "list";
  return "pairs";
}

export function toText(kind: Kind, value: unknown): string {
  if (value === null || value === undefined) return "";
  if (kind === "list") return (value as string[]).join("\n");
  if (kind === "pairs")
    return Object.entries(value as Record<string, string>)
      .map((pair) => pair.join(" = "))
      .join("\n");
  if (kind === "json") return Object.keys(value as object).length > 0 ? JSON.stringify(value, null, 2) : "";
  return String(value);
}

export function fromText(kind: Kind, text: string): unknown {
  const lines = text
    .split("\n")
    .map((line) => line.trim())
    .filter(Boolean);
  switch (kind) {
    case "flag":
      return text === "true";
    case "number":
      return text.trim() === "" || Number.isNaN(Number(text)) ? text : Number(text);
    case "list":
      return lines;
    case "pairs":
      return Object.fromEntries(
        lines.map((line) => {
          const at = line.indexOf("=");
          return at < 0 ? [line, ""] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
        }),
      );
    case "json":
      return readJson(text);
    default:
      return text;
  }
}

function readJson(text: string): unknown {
  if (text.trim() === "") return {};
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
