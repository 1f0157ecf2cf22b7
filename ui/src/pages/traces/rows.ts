// The rows of the list: pages that follow each other, and new runs as they come.
import { useEffect, useRef, useState } from "preact/hooks";
import { api, ask, type Problem } from "../../api/client";
import { onSettled, useLoad } from "../../api/load";
import { asProblem } from "../../parts/states";
import { asQuery, type Filter } from "./filter";
import type { Trace } from "./status";

const PAGE = 50;

export interface Rows {
  rows: Trace[] | undefined;
  total: number;
  problem: Problem | undefined;
  hasMore: boolean;
  /** How many new runs wait above the rows. */
  fresh: number;
  more: () => Promise<void>;
  showFresh: () => void;
  reload: () => void;
}

function readPage(filter: Filter, cursor: string, signal?: AbortSignal) {
  const query = { ...asQuery(filter), limit: PAGE, ...(cursor && { cursor }) };
  return ask(api.GET("/api/v1/traces", { params: { query }, ...(signal && { signal }) }));
}

interface State {
  rows: Trace[];
  cursor: string | null | undefined;
  total: number;
  fresh: Trace[];
}

/**
 * Return the runs of a filter. Rows that are shown change in place as their runs end. New runs come on top if `isCalm`
 * says that nobody reads or uses the rows; otherwise they wait until they are asked for.
 */
export function useTraces(filter: Filter, isCalm: () => boolean): Rows {
  const first = useLoad((signal) => readPage(filter, "", signal), [filter]);
  const [state, setState] = useState<State | undefined>(undefined);
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  const key = JSON.stringify(filter);
  const current = useRef(key);
  current.current = key;
  useEffect(() => {
    if (!first.data) return setState(undefined);
    const { items, next_cursor, total } = first.data;
    setProblem(undefined);
    setState({ rows: items, cursor: next_cursor, total, fresh: [] });
  }, [first.data]);
  useEffect(() => {
    const look = async () => {
      const newest = await readPage(filter, "").catch(() => undefined);
      if (newest && current.current === key)
        setState((last) => last && mergeRows(last, newest.items, newest.total, isCalm(), filter.sort !== "started_at"));
    };
    return onSettled(["run_started", "run_finished"], look);
  }, [key]);
  const more = async () => {
    try {
      const next = await readPage(filter, state?.cursor ?? "");
      if (current.current !== key) return;
      setProblem(undefined);
      setState((last) => {
        if (!last) return last;
        const known = new Set(last.rows.map((row) => row.id));
        const rows = [...last.rows, ...next.items.filter((row) => !known.has(row.id))];
        return { ...last, rows, cursor: next.next_cursor, total: next.total };
      });
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  const showFresh = () => {
    // Between a whole page of new runs and the rows, others may be missing.
    if (state && state.fresh.length >= PAGE) first.reload();
    else setState((last) => last && { ...last, rows: [...last.fresh, ...last.rows], fresh: [] });
  };
  return {
    rows: state?.rows,
    total: state?.total ?? 0,
    problem: first.problem ?? problem,
    hasMore: Boolean(state?.cursor),
    fresh: state?.fresh.length ?? 0,
    more,
    showFresh,
    reload: first.reload,
  };
}

function mergeRows(last: State, newest: Trace[], total: number, isCalm: boolean, isSorted: boolean): State {
  const found = new Map(newest.map((row) => [row.id, row]));
  const rows = last.rows.map((row) => found.get(row.id) ?? row);
  const known = new Set(rows.map((row) => row.id));
  const fresh = newest.filter((row) => !known.has(row.id));
  // Sorted by anything but time, new runs have no place on top.
  if (isSorted) return { ...last, rows, total };
  if (fresh.length < PAGE && (isCalm || rows.length === 0))
    return { ...last, rows: [...fresh, ...rows], total, fresh: [] };
  return { ...last, rows, total, fresh };
}
