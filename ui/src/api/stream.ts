// Server-sent events of a request with a body, which `EventSource` cannot make.
import { Problem, problemOf } from "./client";

export interface StreamEvent {
  name: string;
  data: unknown;
}

/** The server sends a comment every 15 seconds. After this long without anything, the connection is gone. */
const SILENCE_MS = 45_000;

/** Send a request and return its events. Throw a `Problem` if the server refuses it, or does not answer. */
export async function openStream(path: string, { body, signal }: { body?: unknown; signal?: AbortSignal } = {}) {
  const headers: Record<string, string> = { Accept: "text/event-stream" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response: Response;
  try {
    const method = body === undefined ? "GET" : "POST";
    response = await fetch(path, { method, headers, signal, body: body === undefined ? null : JSON.stringify(body) });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, "offline", "");
  }
  if (!response.ok) throw problemOf(response.status, await response.json().catch(() => undefined));
  return readEvents(response.body);
}

/** Yield the events of an answer: `readEvents(await ask(api.POST(…, { parseAs: "stream" })))`. */
export async function* readEvents(stream: ReadableStream<Uint8Array> | null | undefined): AsyncGenerator<StreamEvent> {
  if (!stream) return;
  const reader = stream.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    while (true) {
      const { done, value } = await read(reader);
      rest += decoder.decode(value, { stream: !done }).replace(/\r/g, "");
      const frames = rest.split("\n\n");
      rest = frames.pop() ?? "";
      for (const frame of frames) {
        const event = parse(frame);
        if (event) yield event;
      }
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

async function read(reader: ReadableStreamDefaultReader<Uint8Array>) {
  let timer = 0;
  const silence = new Promise<never>((_, reject) => {
    timer = window.setTimeout(() => reject(new Error("silence")), SILENCE_MS);
  });
  try {
    return await Promise.race([reader.read(), silence]);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, "offline", "");
  } finally {
    window.clearTimeout(timer);
  }
}

function parse(frame: string): StreamEvent | undefined {
  let name = "message";
  const data: string[] = [];
  for (const line of frame.split("\n")) {
    if (line.startsWith("event:")) name = line.slice(6).trim();
    else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
  }
  return data.length ? { name, data: JSON.parse(data.join("\n")) } : undefined;
}
