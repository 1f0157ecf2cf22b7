import { readFileSync } from "node:fs";
import preact from "@preact/preset-vite";
import { defineConfig, type Plugin } from "vite";

const LANGUAGES = ["en", "de"];
const BASE =
  /node_modules\/(preact|@preact|preact-iso|openapi-fetch)\/|ui\/src\/(api\/(client|live|load)|format|i18n|keys|state|parts\/(badge|controls|dialog|icons|page|states|toast))\.tsx?$/;
type Source = Record<string, Record<string, Record<string, string>>>;

/** Turns `messages.json` into one module per language: `virtual:messages/en`, `virtual:messages/de`. */
function messages(): Plugin {
  const file = new URL("messages.json", import.meta.url);
  const prefix = "virtual:messages/";
  return {
    name: "messages",
    resolveId: (id) => (id.startsWith(prefix) ? `\0${id}` : undefined),
    load(id) {
      if (!id.startsWith(`\0${prefix}`)) return undefined;
      this.addWatchFile(file.pathname);
      const language = id.slice(prefix.length + 1);
      const source = JSON.parse(readFileSync(file, "utf8")) as Source;
      const texts: Record<string, string> = {};
      for (const [section, keys] of Object.entries(source))
        for (const [key, text] of Object.entries(keys)) {
          const missing = LANGUAGES.find((one) => !text[one]);
          if (missing) this.error(`messages.json: ${section}.${key} has no text in "${missing}".`);
          texts[`${section}.${key}`] = text[language] as string;
        }
      return `export default ${JSON.stringify(texts)}`;
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
