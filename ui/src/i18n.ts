// The words of the pages in the language of the browser. All of them are in `messages.json`.
type Source = Omit<typeof import("../messages.json"), "default">;
export type MessageKey = {
  [Section in keyof Source & string]: `${Section}.${keyof Source[Section] & string}`;
}[keyof Source & string];

type Values = Record<string, string | number>;

const LANGUAGES = ["en", "de"] as const;
export type Language = (typeof LANGUAGES)[number];

const stored = localStorage.getItem("language");
const wanted = stored ? [stored] : navigator.languages.map((tag) => tag.slice(0, 2));
export const language: Language =
  (wanted.find((tag) => (LANGUAGES as readonly string[]).includes(tag)) as Language | undefined) ?? "en";

// By number and, for keys that pages put together, by name. The build writes numbers in place of the other keys.
const texts = new Map<string | number, string>();
const plurals = new Intl.PluralRules(language);

/** Load the words. Everything else waits for it. */
export async function loadTexts() {
  const [found, keys] = await Promise.all([
    language === "de" ? import("virtual:messages/de") : import("virtual:messages/en"),
    import("virtual:messages/keys"),
  ]);
  const lines = found.default.split("\n");
  lines.forEach((line, number) => {
    texts.set(number, line);
  });
  keys.default.split("\n").forEach((key, number) => {
    texts.set(key, lines[number] as string);
  });
  document.documentElement.lang = language;
}

/** Use another language from now on. The page is loaded again. */
export function chooseLanguage(chosen: Language) {
  localStorage.setItem("language", chosen);
  location.reload();
}

/**
 * Return a text with its values filled in. "one skill | {count} skills" has a form for one and a form for other counts.
 */
export function t(key: MessageKey, values: Values = {}): string {
  let text = texts.get(key) ?? key;
  if (text.includes(" | ")) {
    const [one, other] = text.split(" | ") as [string, string];
    text = plurals.select(Number(values.count)) === "one" ? one : other;
  }
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = values[name];
    return value === undefined ? whole : typeof value === "number" ? value.toLocaleString(language) : value;
  });
}

/** Return a text that only some names have, such as `audit.do_` with "run". Other names are shown as they are. */
export function named(prefix: string, name: string): string {
  return texts.get(prefix + name.replaceAll("-", "_")) ?? name;
}
