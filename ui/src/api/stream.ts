// Server-sent events of a request with a body, which `EventSource` cannot make.
import { Problem } from "./client";

export interface StreamEvent {
  name: string;
  data: unknown;
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
  try {
    return await reader.read();
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, "offline", "");
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
