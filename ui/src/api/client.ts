// Requests to the HTTP API, with the types of its OpenAPI document.
import { signal } from "@preact/signals";
import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

/** The shapes of answers and bodies, by their names in the OpenAPI document: `Shapes["SkillShape"]`. */
export type Shapes = components["schemas"];

export const api = createClient<paths>({ baseUrl: "/" });

/** True if the server does not know who this browser belongs to. */
export const isSignedOut = signal(false);

/** Why a request failed: what happened, and what to do next. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
    readonly hint = "",
    readonly details: Record<string, unknown> = {},
  ) {
    super(message);
  }

  /** True if nothing answered: the server is stopped, or the network is gone. */
  get isOffline() {
    return this.status === 0;
  }
}

interface Answer<T> {
  data?: T;
  error?: unknown;
  response: Response;
}

/** Return what a request of `api` answers; throw a `Problem` if it fails. */
export async function ask<T>(request: Promise<Answer<T>>): Promise<T> {
  let answer: Answer<T>;
  try {
    answer = await request;
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Problem(0, "offline", "");
  }
  if (answer.response.ok) return answer.data as T;
  throw problemOf(answer.response.status, answer.error);
}

/** Return the problem that a response with this status and body tells. */
export function problemOf(status: number, body: unknown): Problem {
  if (status === 401) isSignedOut.value = true;
  const found = (typeof body === "object" && body !== null ? body : {}) as Record<string, unknown>;
  const text = (name: string) => (typeof found[name] === "string" ? (found[name] as string) : "");
  // The other hint names requests of the API, which nobody sends from a page.
  const hint = text("command_hint") || text("hint");
  return new Problem(status, text("code"), text("detail") || text("title"), hint, found);
}
