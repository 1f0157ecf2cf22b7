// What the server says about the draft, a moment after each change.
import { useEffect, useRef, useState } from "preact/hooks";
import { api, ask, type Problem, type Shapes } from "../../api/client";
import { asProblem } from "../../parts/states";
import type { Edits } from "./draft";

export type Preview = Shapes["DraftShape"];
export type Artifact = Preview["artifacts"][number];
export type Fault = Preview["problems"][number];

const SETTLE_MS = 250;

/** Call a function a moment after the inputs have changed. What it did for earlier inputs is cancelled. */
export function useSettled(work: (signal: AbortSignal) => Promise<void>, inputs: unknown[], wait = SETTLE_MS) {
  useEffect(() => {
    const abort = new AbortController();
    const timer = window.setTimeout(() => work(abort.signal), wait);
    return () => {
      window.clearTimeout(timer);
      abort.abort();
    };
  }, inputs);
}

export interface Previewed {
  preview: Preview | undefined;
  problem: Problem | undefined;
  /** True while the text is newer than the preview. */
  isOld: boolean;
}

export function usePreview(edits: Edits | undefined, address: string, scope: string): Previewed {
  const [state, setState] = useState<Omit<Previewed, "isOld">>({ preview: undefined, problem: undefined });
  const shown = useRef<Edits | undefined>(undefined);
  useSettled(
    async (signal) => {
      if (!edits) return;
      const body = {
        ...edits,
        skill: address,
        ...(address ? {} : { scope }),
      } as unknown as Shapes["ParseBody"];
      try {
        const preview = await ask(api.POST("/api/v1/skills/parse", { body, signal }));
        shown.current = edits;
        setState({ preview, problem: undefined });
      } catch (error) {
        if (!signal.aborted) setState((last) => ({ ...last, problem: asProblem(error) }));
      }
    },
    [edits, address, scope],
  );
  return { ...state, isOld: shown.current !== edits };
}
