/** Types for those who write `execute(args, ctx)` in TypeScript: `@devai/skill-runtime`. Nothing here is there at run time. */

/** What a function can reach of the world. */
export interface SkillContext {
  /** `fetch` as the web has it, to the hosts that the manifest lists. */
  fetch(input: string | URL | Request, init?: RequestInit): Promise<Response>;
  /** The values that the manifest lists and an administrator allows. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** A file of a folder that the manifest lists, or of the run's own: its text, or its bytes if it is not text. */
  // deno-lint-ignore no-explicit-any
  readFile(path: string | URL): Promise<any>;
  /** Writes a file whole. */
  writeFile(path: string | URL, content: string | Uint8Array): Promise<void>;
  /** Adds a line to the log of the run. */
  log(message: unknown): void;
}

/** What a function gives. Anything else that it returns is the result of a success. */
export interface SkillResult {
  success: boolean;
  result?: unknown;
  error?: string;
}
