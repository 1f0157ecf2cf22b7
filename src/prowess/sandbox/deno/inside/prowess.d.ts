/** Types of the module `prowess`: what functions can ask of their host besides their context. */

/** A host function said no, or could not; `code` is a word for it. */
export class HostError extends Error {
  readonly code: string;
}
export function run_skill(skill: string, params?: Record<string, unknown>): Promise<unknown>;
export function llm_query(prompt: string, max_tokens?: number): Promise<string>;
export function llm_query(prompt: string, max_tokens: number | null | undefined, schema: object): Promise<unknown>;
export function llm_query_batched(prompts: string[], max_tokens?: number): Promise<string[]>;
export function llm_query_batched(
  prompts: string[],
  max_tokens: number | null | undefined,
  schema: object,
): Promise<unknown[]>;
export function workspace_search(query: string, limit?: number): Promise<unknown[]>;
export function search(query: string, limit?: number): Promise<unknown[]>;
export function get_page(slug: string): Promise<unknown>;
export function get_pages(slugs: string[]): Promise<unknown[]>;
export function get_pages_by_type(type: string): Promise<unknown[]>;
export function get_tags(): Promise<unknown>;
export function get_references(slug: string): Promise<unknown>;
export function get_history(slug: string, limit?: number): Promise<unknown[]>;
export function checkpoint(value?: unknown): Promise<unknown>;
