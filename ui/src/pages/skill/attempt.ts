import { useState } from "preact/hooks";
import type { Problem } from "../../api/client";
import { asProblem } from "../../parts/states";

/** Do something in a dialog, which stays open and shows the problem if it fails. */
export function useAttempt() {
  const [problem, setProblem] = useState<Problem>();
  const run = async (work: () => Promise<void>) => {
    setProblem(undefined);
    try {
      await work();
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  return { problem, run };
}
