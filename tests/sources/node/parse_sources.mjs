// Print what the parser of the skills CLI makes of each source string on standard input (a JSON list).
// The package exports nothing, so its functions are cut out of the bundle.
import { readFileSync } from "node:fs";
import { isAbsolute, resolve } from "node:path";

const bundle = readFileSync(new URL("node_modules/skills/dist/cli.mjs", import.meta.url), "utf-8");
const start = bundle.indexOf("function sanitizeSubpath(");
const last = bundle.indexOf("function isWellKnownUrl(");
const end = bundle.indexOf("\n}\n", last) + 3;
const parseSource = new Function("isAbsolute", "resolve", `${bundle.slice(start, end)}; return parseSource;`)(isAbsolute, resolve);

const answers = JSON.parse(readFileSync(0, "utf-8")).map((text) => {
  try {
    const { localPath, ...parsed } = parseSource(text);
    return parsed;
  } catch (error) {
    return { error: error.message };
  }
});
console.log(JSON.stringify(answers));
