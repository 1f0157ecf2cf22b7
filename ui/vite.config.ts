import { readdirSync, readFileSync } from "node:fs";
import preact from "@preact/preset-vite";
import { defineConfig, type Plugin } from "vite";

const LANGUAGES = ["en", "de"];
const BASE =
  /node_modules\/(preact|@preact|preact-iso|openapi-fetch)\/|ui\/src\/(api\/(client|live|load)|format|i18n|keys|state|parts\/(badge|controls|dialog|icons|page|states|toast))\.tsx?$/;
type Source = Record<string, Record<string, Record<string, string>>>;

/**
 * Turns `messages.json` into one module per language: `virtual:messages/en`, `virtual:messages/de`. Their texts stand in
 * the order of their keys, one in each line. `t("menu.skills")` becomes `t(17)`, so that most keys are not sent to
 * browsers; `virtual:messages/keys` has the first ones, which pages put together: `t(`jobs.state_${state}`)`.
 */
function messages(): Plugin {
  const file = new URL("messages.json", import.meta.url);
  const prefix = "virtual:messages/";
  const source = JSON.parse(readFileSync(file, "utf8")) as Source;
  const folder = new URL("src/", import.meta.url);
  const code = readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => /\.tsx?$/.test(name))
    .map((name) => readFileSync(new URL(name, folder), "utf8"))
    .join("\n");
  const starts = [...code.matchAll(/`([a-z_]+\.\w*)\$\{|named\("([a-z_.]+)"/g)].map(
    (found) => found[1] ?? (found[2] as string),
  );
  const all = Object.entries(source).flatMap(([section, texts]) =>
    Object.keys(texts).map((key) => `${section}.${key}`),
  );
  const isOpen = (key: string) => starts.some((start) => key.startsWith(start));
  const keys = [...all.filter(isOpen), ...all.filter((key) => !isOpen(key))];
  const numbers = new Map(keys.map((key, number) => [key, number]));
  const text = (key: string, language: string) => {
    const [section, name] = key.split(".") as [string, string];
    return source[section]?.[name]?.[language] ?? "";
  };
  return {
    name: "messages",
    enforce: "post",
    buildStart() {
      for (const key of keys) {
        const missing = LANGUAGES.find((one) => !text(key, one));
        if (missing) this.error(`messages.json: ${key} has no text in "${missing}".`);
        if (LANGUAGES.some((one) => text(key, one).includes("\n"))) this.error(`messages.json: ${key} has two lines.`);
        if (!isOpen(key) && !code.includes(`"${key}"`)) this.error(`messages.json: no page shows ${key}. Remove it.`);
      }
    },
    resolveId: (id) => (id.startsWith(prefix) ? `\0${id}` : undefined),
    load(id) {
      if (!id.startsWith(`\0${prefix}`)) return undefined;
      this.addWatchFile(file.pathname);
      const name = id.slice(prefix.length + 1);
      const lines = name === "keys" ? keys.filter(isOpen) : keys.map((key) => text(key, name));
      return `export default ${JSON.stringify(lines.join("\n"))}`;
    },
    transform(code, id) {
      if (!id.startsWith(folder.pathname)) return undefined;
      return code.replace(/"([a-z_]+\.\w+)"/g, (whole, key: string) => String(numbers.get(key) ?? whole));
    },
  };
}

export default defineConfig({
  base: "/app/",
  plugins: [preact(), messages()],
  build: {
    outDir: "../src/prowess/interfaces/rest/web/app",
    emptyOutDir: true,
    assetsDir: "",
    modulePreload: { polyfill: false },
    target: "es2022",
    // Browsers of 2024 and later know `light-dark()`.
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    // A picture as a data URL would be part of every first load.
    assetsInlineLimit: 0,
    rolldownOptions: {
      // On a busy machine every build would be called slow.
      checks: { pluginTimings: false },
      output: {
        codeSplitting: {
          // What every page uses comes in one file instead of a dozen.
          groups: [{ name: "base", test: BASE }],
        },
      },
    },
    // The text editor, which only the pages with an editor load.
    chunkSizeWarningLimit: 900,
  },
  // For work on the pages: `npx vite` beside `prowess serve`.
  server: {
    proxy: { "/api": "http://127.0.0.1:7717", "/assets": "http://127.0.0.1:7717", "/sign-in": "http://127.0.0.1:7717" },
  },
});
