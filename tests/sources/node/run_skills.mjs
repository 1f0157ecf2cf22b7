// Run the real skills CLI with the arguments, folder and variables on standard input, without a network.
import { readFileSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const { args, cwd, env } = JSON.parse(readFileSync(0, "utf-8"));
const cli = fileURLToPath(new URL("node_modules/skills/bin/cli.mjs", import.meta.url));
const quiet = { DISABLE_TELEMETRY: "1", DO_NOT_TRACK: "1", NO_COLOR: "1", CI: "1", PATH: process.env.PATH };
const ran = spawnSync(process.execPath, [cli, ...args], { cwd, env: { ...quiet, ...env }, encoding: "utf-8", timeout: 50000 });
console.log(JSON.stringify({ code: ran.status, out: ran.stdout, err: ran.stderr }));
