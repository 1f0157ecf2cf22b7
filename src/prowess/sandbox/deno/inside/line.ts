/** The way to the host: frames of a length, a run, a kind and a payload, over standard input and output. */

const RUN = 1, CALL = 12, DONE = 13, HEADER = 9;
const { stdin, stdout } = Deno;
const encoder = new TextEncoder(), decoder = new TextDecoder();

/** What a host function says no with. */
export class HostError extends Error {
  constructor(message: string, readonly code: string) {
    super(message);
    this.name = "HostError";
  }
}

let turn: Promise<unknown> = Promise.resolve();
let asking = false;
const untold: string[] = [];

/** What a host function gives. Calls take turns, in the order in which they are made. */
export function call(name: string, args: unknown[], named: Record<string, unknown> = {}): Promise<any> {
  const asked = `${name}\n${JSON.stringify([args, named])}`;
  const made = new Error();
  const answered = turn.then(() => ask(asked)).catch((error) => {
    if (error instanceof HostError) error.stack = stackOf(error, made);
    throw error;
  });
  turn = answered.catch(() => undefined);
  return answered;
}

/** Calls a host function that gives nothing, before the script goes on: it may never pause again, and be killed. */
export function tell(name: string, args: unknown[]): void {
  untold.push(`${name}\n${JSON.stringify([args, {}])}`);
  if (!asking) tellAll();
}

function tellAll(): void {
  for (const told of untold.splice(0)) {
    send(CALL, told);
    readNow(new DataView(readNow(HEADER).buffer).getUint32(0));
  }
}

/** The stack of an error, with the lines of where the call was made that it answers. */
function stackOf(error: Error, made: Error): string {
  return [`${error.name}: ${error.message}`, ...String(made.stack).split("\n").slice(1)].join("\n");
}

/** Waits until every call that was made has been answered. */
export async function settled(): Promise<void> {
  let last;
  do {
    last = turn;
    await last;
  } while (last !== turn);
}

/** Takes what is printed to the host. */
export function print(text: string): void {
  send(CALL, `print\n${text}`);
}

/** Reports the outcome of the run. Anything sent after it is ignored. */
export function done(said: string): void {
  send(DONE, said);
}

/** What the host wants run. */
export async function task(): Promise<[any, any]> {
  const [kind, payload] = await receive();
  if (kind !== RUN) throw new Error("no task");
  const end = payload.indexOf("\n");
  return [JSON.parse(payload.slice(0, end)), JSON.parse(payload.slice(end + 1))];
}

async function ask(asked: string): Promise<unknown> {
  asking = true;
  send(CALL, asked);
  const [, payload] = await receive();
  asking = false;
  // Before the script gets the answer, and may compute without a pause.
  tellAll();
  const answer = JSON.parse(payload);
  if (answer.error) throw new HostError(answer.error.message, answer.error.code);
  return answer.value;
}

function send(kind: number, text: string): void {
  const payload = encoder.encode(text);
  const frame = new Uint8Array(HEADER + payload.length);
  const view = new DataView(frame.buffer);
  view.setUint32(0, payload.length);
  view.setUint32(4, 1);
  view.setUint8(8, kind);
  frame.set(payload, HEADER);
  for (let sent = 0; sent < frame.length;) sent += stdout.writeSync(frame.subarray(sent));
}

async function receive(): Promise<[number, string]> {
  const header = await read(HEADER);
  const view = new DataView(header.buffer);
  return [view.getUint8(8), decoder.decode(await read(view.getUint32(0)))];
}

function readNow(size: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(size);
  for (let got = 0; got < size;) {
    const more = stdin.readSync(bytes.subarray(got));
    if (more === null) throw new Error("the host is gone");
    got += more;
  }
  return bytes;
}

async function read(size: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(size);
  for (let got = 0; got < size;) {
    const more = await stdin.read(bytes.subarray(got));
    if (more === null) throw new Error("the host is gone");
    got += more;
  }
  return bytes;
}
