/** A console whose lines go to the host. */

import { format, inspect } from "node:util";
import { print } from "./line.ts";

const SAYING = ["log", "info", "debug", "warn", "error", "dirxml", "group", "groupCollapsed"];
const SILENT = ["groupEnd", "clear", "time", "timeLog", "timeEnd", "timeStamp", "profile", "profileEnd", "countReset"];

/** What stands in the place of `console`. */
export function printing(): Console {
  const counts = new Map<string, number>();
  const say = (...values: unknown[]) => print(`${format(...values)}\n`);
  return {
    ...Object.fromEntries(SAYING.map((name) => [name, say])),
    ...Object.fromEntries(SILENT.map((name) => [name, () => undefined])),
    table: say,
    dir: (value: unknown) => print(`${inspect(value)}\n`),
    trace: (...values: unknown[]) => say("Trace:", ...values),
    assert: (holds: unknown, ...values: unknown[]) => holds ? undefined : say("Assertion failed:", ...values),
    count: (label = "default") => {
      counts.set(label, (counts.get(label) ?? 0) + 1);
      say(`${label}: ${counts.get(label)}`);
    },
  } as unknown as Console;
}
