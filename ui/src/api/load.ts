// Data for a page: load it, keep it while it is loaded again, and load it again when an event says that it changed.
import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Problem } from "./client";
import { type EventName, onEvents } from "./live";

export interface Loaded<T> {
  /** The newest data, also while it is loaded again. Undefined before the first answer. */
  data: T | undefined;
  problem: Problem | undefined;
  isLoading: boolean;
  /** Load again, and show the old data meanwhile. */
  reload: () => void;
  /** Show other data at once, for example the answer to a change. */
  replace: (data: T) => void;
}

const SETTLE_MS = 150;
const SHORTEST_GAP_MS = 700;
const TYPED_MS = 250;

/** Call the function soon after one of the events, once for a burst, and now and then while events keep coming. */
export function onSettled(names: EventName[], action: () => void): () => void {
  let timer = 0;
  let last = 0;
  const stop = onEvents(names, () => {
    if (timer) return;
    const wait = Math.max(SETTLE_MS, last + SHORTEST_GAP_MS - Date.now());
    timer = window.setTimeout(() => {
      timer = 0;
      last = Date.now();
      action();
    }, wait);
  });
  return () => {
    window.clearTimeout(timer);
    stop();
  };
}

/** Load data when `inputs` change, when one of the events happens, and when a lost connection is back. */
export function useLoad<T>(
  load: (signal: AbortSignal) => Promise<T>,
  inputs: unknown[],
  events: EventName[] = [],
): Loaded<T> {
  const [state, setState] = useState<{ data?: T; problem?: Problem; isLoading: boolean }>({ isLoading: true });
  const [count, setCount] = useState(0);
  const reload = useCallback(() => setCount((last) => last + 1), []);
  const inputsKey = JSON.stringify(inputs);
  const shown = useRef(inputsKey);
  useEffect(() => {
    const abort = new AbortController();
    const isOther = shown.current !== inputsKey;
    shown.current = inputsKey;
    setState((last) => ({ data: isOther ? undefined : last.data, isLoading: true }));
    load(abort.signal).then(
      (data) => !abort.signal.aborted && setState({ data, isLoading: false }),
      (error) => {
        if (abort.signal.aborted) return;
        const problem = error instanceof Problem ? error : new Problem(0, "failed", String(error));
        setState((last) => ({ data: last.data, problem, isLoading: false }));
      },
    );
    return () => abort.abort();
  }, [inputsKey, count]);
  useEffect(() => onSettled([...events, "reconnected"], reload), [events.join()]);
  const replace = useCallback((data: T) => setState({ data, isLoading: false }), []);
  return { data: state.data, problem: state.problem, isLoading: state.isLoading, reload, replace };
}

/** One page of a list, as the server answers it. */
export interface ListPage<T> {
  items: T[];
  next_cursor: string | null;
  total: number;
}

export interface Pages<T> extends Loaded<ListPage<T>> {
  /** Show the next entries, too. */
  more: () => void;
}

const PAGE_SIZE = 100;
const LARGEST_PAGE = 200;

/** Load a list of any length: the first entries, and more of them when somebody wants to see them. */
export function usePages<T>(
  load: (page: { limit: number; cursor?: string }, signal: AbortSignal) => Promise<ListPage<T>>,
  inputs: unknown[],
  events: EventName[] = [],
): Pages<T> {
  const inputsKey = JSON.stringify(inputs);
  const wanted = useRef({ inputsKey, count: PAGE_SIZE });
  if (wanted.current.inputsKey !== inputsKey) wanted.current = { inputsKey, count: PAGE_SIZE };
  const loaded = useLoad(
    async (signal) => {
      // All entries that are shown are loaded again, because any of them may have changed.
      const items: T[] = [];
      let page: ListPage<T>;
      let cursor: string | undefined;
      do {
        const limit = Math.min(LARGEST_PAGE, wanted.current.count - items.length);
        page = await load({ limit, ...(cursor && { cursor }) }, signal);
        items.push(...page.items);
        cursor = page.next_cursor ?? undefined;
      } while (cursor && items.length < wanted.current.count);
      return { ...page, items };
    },
    inputs,
    events,
  );
  const more = useCallback(() => {
    wanted.current.count += PAGE_SIZE;
    loaded.reload();
  }, []);
  return { ...loaded, more };
}

/** Return a value once it has not changed for a moment: for requests about what somebody types. */
export function useSettled<T>(value: T): T {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = window.setTimeout(() => setSettled(value), TYPED_MS);
    return () => window.clearTimeout(timer);
  }, [value]);
  return settled;
}
