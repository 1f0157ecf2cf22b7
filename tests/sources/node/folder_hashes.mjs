// Print, for the folders and lists of names on standard input, the hashes and the order that the skills CLI computes.
// The package exports nothing, so its functions are cut out of the bundle.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { readFile, readdir } from "node:fs/promises";
import { join, relative } from "node:path";

const bundle = readFileSync(new URL("node_modules/skills/dist/cli.mjs", import.meta.url), "utf-8");
const start = bundle.indexOf("async function computeSkillFolderHash(");
const end = bundle.indexOf("async function addSkillToLocalLock(");
const names = ["createHash", "readFile", "readdir", "join", "relative"];
const compute = new Function(...names, `${bundle.slice(start, end)}; return computeSkillFolderHash;`)(
  createHash, readFile, readdir, join, relative,
);
const { folders, lists } = JSON.parse(readFileSync(0, "utf-8"));
const hashes = await Promise.all(folders.map((folder) => compute(folder)));
// As in that function, but in one locale, so that the answer does not depend on the machine.
const sorted = lists.map((list) => [...list].sort((a, b) => a.localeCompare(b, "en-US")));
console.log(JSON.stringify({ hashes, sorted }));
