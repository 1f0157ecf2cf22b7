/** The context of a function: what it can reach of the world, each by asking its host. */

import { Buffer } from "node:buffer";
import { call, tell } from "./line.ts";

const WITHOUT_BODY = [101, 204, 205, 304];

/** What `execute(args, ctx)` has as `ctx`. */
export function context(env: Record<string, string | null>) {
  return Object.freeze({
    fetch: ask,
    env: environment(env),
    async readFile(path: string | URL): Promise<string | Uint8Array> {
      return taken(await call("read_file", [String(path)]));
    },
    async writeFile(path: string | URL, content: string | Uint8Array): Promise<void> {
      await call("write_file", [String(path), typeof content === "string" ? content : sent(content)]);
    },
    log(message: unknown): void {
      tell("log", [String(message)]);
    },
  });
}

/** The granted variables. `null` stands for one that is declared but absent; any other name is an error. */
function environment(declared: Record<string, string | null>): Readonly<Record<string, string>> {
  const granted = Object.fromEntries(Object.entries(declared).filter(([, value]) => value !== null));
  return new Proxy(Object.freeze(granted) as Record<string, string>, {
    get(target, name, receiver) {
      // `then` and `toJSON` are looked up by `await` and `JSON.stringify`, not by the author of the function.
      const known = typeof name !== "string" || name in declared || name in target || ["then", "toJSON"].includes(name);
      if (known) return Reflect.get(target, name, receiver);
      const error = new Error(`ctx.env: ${name} is not declared by this skill.`);
      error.name = "EnvNotDeclared";
      throw error;
    },
  });
}

/** `fetch` as the web has it. */
async function ask(input: string | URL | Request, init?: RequestInit): Promise<Response> {
  const request = new Request(input, init);
  request.signal.throwIfAborted();
  const content = new Uint8Array(await request.arrayBuffer());
  const told = await unlessAborted(
    request.signal,
    call("fetch", [request.url], {
      method: request.method,
      headers: Object.fromEntries(request.headers),
      body: content.length ? sent(content) : null,
    }),
  );
  const body = WITHOUT_BODY.includes(told.status) ? null : taken(told);
  const response = new Response(body as BodyInit | null, { status: told.status, headers: told.headers });
  return Object.defineProperty(response, "url", { value: told.url });
}

function unlessAborted<T>(signal: AbortSignal, answer: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    answer.then(resolve, reject);
  });
}

/** Bytes in a way that JSON can say: as text where they are one. */
function sent(bytes: Uint8Array): string | { base64: string } {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return { base64: Buffer.from(bytes).toString("base64") };
  }
}

function taken(told: { text?: string; base64?: string }): string | Uint8Array {
  return told.base64 === undefined ? told.text! : new Uint8Array(Buffer.from(told.base64, "base64"));
}
