import { useEffect, useState } from "preact/hooks";

const SETTLE_MS = 250;

/** Return a value once it has not changed for a moment: for requests about what somebody types. */
export function useSettled<T>(value: T): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = window.setTimeout(() => setSettled(value), SETTLE_MS);
    return () => window.clearTimeout(timer);
  }, [value]);
  return settled;
}
