/** The program within Deno: runs one function of one file and reports the outcome. */

import process from "node:process";
import { context } from "./context.ts";
import { call, done, HostError, settled, task } from "./line.ts";
import { printing } from "./printing.ts";

const TRACE_CHARS = 8_000, MESSAGE_CHARS = 4_000;
const FLAG = /, run again with the --allow-\w+ flag/;
const IMPORTS = "A skill is one file: it imports node: modules, `prowess` and types, and nothing else.";
const inspect = Deno.inspect, stringify = JSON.stringify, exit = Deno.exit;

const [limits, asked] = await task();
const [kind] = Deno.args;
const place = URL.createObjectURL(new Blob([asked.source], { type: kind }));
let submitted: string | undefined;

prepare();
addEventListener("error", (event) => end(failure(event.error)));
addEventListener("unhandledrejection", (event) => end(failure(event.reason)));
try {
  const ran = await run();
  await settled();
  end(ran === undefined ? '{"done":true}' : `{"done":true,"result":${ran}}`);
} catch (error) {
  end(failure(error));
}

/** Runs the file, then its function where one is asked for; what is given as the result, as JSON. */
async function run(): Promise<string | undefined> {
  const ctx = context(asked.env);
  Object.assign(globalThis, { fetch: ctx.fetch, inputs: asked.inputs });
  const module = await import(place).catch((error) => Promise.reject(unloadable(error)));
  if (!asked.entry) return submitted;
  const entry = module[asked.entry] ?? module.default?.[asked.entry] ?? module.default;
  if (typeof entry !== "function") throw new TypeError(`${asked.file} exports no function ${asked.entry}.`);
  return json(await entry(asked.inputs, ctx));
}

/** Offers the host's functions, takes what is printed, and hides what is of no use here. */
function prepare(): void {
  const host: Record<string, unknown> = { HostError, submit: (value: unknown) => void (submitted = json(value)) };
  for (const name of asked.functions) host[name] = (...args: unknown[]) => call(name, args);
  Object.defineProperty(globalThis, Symbol.for("prowess"), { value: Object.freeze(host) });
  globalThis.console = printing();
  for (const name of ["Worker", "localStorage", "sessionStorage", "caches"]) {
    Object.defineProperty(globalThis, name, { value: undefined });
  }
  for (const name of ["stdin", "stdout", "stderr"]) {
    for (const owner of [Deno, process]) Object.defineProperty(owner, name, { value: undefined });
  }
}

/** Reports the outcome and exits. */
function end(said: string): void {
  done(said.length > limits.result_bytes ? said.slice(0, limits.result_bytes + 1) : said);
  exit(0);
}

function json(value: unknown): string {
  return stringify(value === undefined ? null : value) ?? "null";
}

/** Returns an error that occurred while the file was loaded, under its real type. */
function unloadable(error: any): unknown {
  if (error?.code !== "ERR_MODULE_NOT_FOUND") return error;
  const [first] = String(error.message).split("\n");
  const wrong = first.startsWith("SyntaxError: ");
  const told = wrong ? new SyntaxError(first.slice(13)) : new Error(`${first.replace(FLAG, "")}. ${IMPORTS}`);
  told.name = wrong ? "SyntaxError" : "ImportError";
  told.stack = `${told.name}: ${told.message}\n${String(error.stack).split("\n").filter(isFrame).join("\n")}`;
  return told;
}

function isFrame(line: string): boolean {
  return line.startsWith("    at ");
}

/** What went wrong, by the file's own lines, as JSON. */
function failure(error: any): string {
  let told: { type: string; message: string; trace: string };
  try {
    told = parts(error);
  } catch {
    told = { type: "Error", message: "", trace: "" };
  }
  const line = told.trace.match(new RegExp(`${place}:(\\d+)`))?.[1];
  return stringify({
    error: {
      type: told.type,
      message: named(told.message.replace(FLAG, "; a skill reaches that only through ctx")).slice(0, MESSAGE_CHARS),
      line: line ? Number(line) : null,
      trace: named(told.trace).slice(0, TRACE_CHARS),
      host: error instanceof HostError,
    },
  });
}

/** A text about the file, with its name in the place of where it lies. */
function named(text: string): string {
  return text.replaceAll(place, asked.file);
}

function parts(error: any): { type: string; message: string; trace: string } {
  if (!(error instanceof Error)) return { type: "Error", message: inspect(error), trace: "" };
  return { type: String(error.name), message: ownLines(error.message), trace: ownLines(error.stack) };
}

/** The lines of a text that are not about this program. */
function ownLines(text: unknown): string {
  return String(text).split("\n").filter((line) => !line.includes(import.meta.dirname ?? "harness.ts")).join("\n");
}
