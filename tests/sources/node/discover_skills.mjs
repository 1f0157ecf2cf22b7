// Print the folders in which the skills CLI finds skills, for each folder on standard input (a JSON list).
import { readFileSync, writeFileSync } from "node:fs";
import { relative } from "node:path";

const folder = new URL("node_modules/skills/dist/", import.meta.url);
const bundle = readFileSync(new URL("cli.mjs", folder), "utf-8");
// The package exports nothing, so a copy of its bundle ends with an export instead of its command line.
const main = bundle.lastIndexOf("\nmain(");
const cut = main < 0 ? bundle.lastIndexOf("\nawait main(") : main;
const copy = new URL("exported.mjs", folder);
writeFileSync(copy, `${bundle.slice(0, cut)}\nexport { discoverSkills };\n`);
const { discoverSkills } = await import(copy.href);

const answers = [];
for (const root of JSON.parse(readFileSync(0, "utf-8"))) {
  answers.push((await discoverSkills(root)).map((skill) => relative(root, skill.path)));
}
console.log(JSON.stringify(answers));
process.exit(0);
