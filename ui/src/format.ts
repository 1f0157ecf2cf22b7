// Numbers, times and sizes as people read them.
import { language } from "./i18n";

const money = (digits: number) =>
  new Intl.NumberFormat(language, { style: "currency", currency: "USD", maximumFractionDigits: digits });
const relative = new Intl.RelativeTimeFormat(language, { numeric: "auto" });
const UNITS: [Intl.RelativeTimeFormatUnit, number][] = [
  ["year", 31_536_000],
  ["month", 2_592_000],
  ["day", 86_400],
  ["hour", 3_600],
  ["minute", 60],
];

/** Return "3 minutes ago". */
export function ago(at: string | number): string {
  const seconds = (new Date(at).getTime() - Date.now()) / 1000;
  for (const [unit, size] of UNITS)
    if (Math.abs(seconds) >= size) return relative.format(Math.round(seconds / size), unit);
  return relative.format(0, "second");
}

/** Return a date and time in full. */
export function moment(at: string | number): string {
  return new Date(at).toLocaleString(language, { dateStyle: "medium", timeStyle: "medium" });
}

/** Return a cost in dollars, with more digits if it is small. */
export function cost(usd: number): string {
  return money(usd !== 0 && Math.abs(usd) < 0.01 ? 6 : Math.abs(usd) < 0.1 ? 4 : 2).format(usd);
}

export function count(value: number): string {
  return value.toLocaleString(language);
}

/** Return a duration: "850 ms", "3.2 s", "4 min". */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toLocaleString(language, { maximumFractionDigits: 1 })} s`;
  return `${Math.round(ms / 60_000)} min`;
}

export function percent(share: number): string {
  return share.toLocaleString(language, { style: "percent", maximumFractionDigits: 1 });
}

/** Return the score of a match. It is cut, not rounded: with 49.96% a skill is not offered, and 50% would say that it is. */
export function fit(score: number): string {
  // Scores have four digits, and multiplied they are only nearly whole.
  return percent(Math.floor(Math.round(score * 10_000) / 10) / 1_000);
}

export function bytes(size: number): string {
  if (size < 1024) return `${size} B`;
  const kilo = size / 1024;
  return kilo < 1024
    ? `${count(Math.round(kilo))} KB`
    : `${(kilo / 1024).toLocaleString(language, { maximumFractionDigits: 1 })} MB`;
}
