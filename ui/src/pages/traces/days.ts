// Days without gaps: the server counts only those on which something ran.
import type { Shapes } from "../../api/client";

type Figures = Shapes["FiguresShape"];
export const DAY_MS = 86_400_000;
const MOST_DAYS = 366;

export interface Day {
  /** The beginning of the day in UTC, in milliseconds. */
  time: number;
  row: Figures | undefined;
}

/** Return every day of the last `days` ("all": since the first with a run), with its figures if something ran. */
export function eachDay(rows: Figures[], days: string): Day[] {
  const found = new Map(rows.map((row) => [Date.parse(row.name), row]));
  const today = Math.floor(Date.now() / DAY_MS) * DAY_MS;
  const known = Math.min(...found.keys(), today);
  const first = days === "all" ? Math.max(known, today - MOST_DAYS * DAY_MS) : today - (Number(days) - 1) * DAY_MS;
  const all: Day[] = [];
  for (let time = first; time <= today; time += DAY_MS) all.push({ time, row: found.get(time) });
  return all;
}
