// The rows of the list of skills: loaded in chunks as they are scrolled to, and again when something changes.
import { useCallback, useEffect, useLayoutEffect, useReducer, useRef } from "preact/hooks";
import { api, ask, Problem, type Shapes } from "../../api/client";
import { onEvents } from "../../api/live";

export type Row = Shapes["OverviewRowShape"];
export type Scope = Row["scope"];
export type Sort = "slug" | "name" | "size" | "score";

export interface Query {
  q: string;
  scopes: Scope[];
  tags: string[];
  sort: Sort | "";
}

interface State {
  /** The query that the rows answer. */
  key: string;
  total: number | undefined;
  facets: Shapes["FacetsShape"] | undefined;
  chunks: Map<number, Row[]>;
  problem: Problem | undefined;
}

const CHUNK = 200;
const SETTLE_MS = 250;

/** The last list, so that coming back to it shows it at once, where it was. */
let remembered: State | undefined;

export interface Catalog extends Omit<State, "chunks" | "key"> {
  rowAt: (index: number) => Row | undefined;
  /** True until the rows answer the query. */
  isBusy: boolean;
  /** Say which rows are shown, so that they are loaded. */
  want: (first: number, last: number) => void;
  reload: () => void;
}

/** Load the skills for a query. `onShift` is called when rows were added or removed above those that are shown. */
export function useCatalog(query: Query, onShift: (rows: number) => void): Catalog {
  const key = JSON.stringify(query);
  const [, render] = useReducer((last: number, _: undefined) => last + 1, 0);
  const state = useRef<State>(
    remembered?.key === key
      ? remembered
      : { key: "", total: undefined, facets: undefined, chunks: new Map(), problem: undefined },
  );
  const range = useRef<[number, number]>([0, CHUNK - 1]);
  const abort = useRef(new AbortController());
  const pending = useRef(new Set<number>());
  const shift = useRef(0);

  const put = (next: Partial<State>) => {
    state.current = { ...state.current, ...next };
    remembered = state.current;
    render(undefined);
  };

  /** Load the chunks from `first` to `last`, and the counts. All others are loaded again when they are shown. */
  const loadAll = useCallback(
    async (first: number, last: number) => {
      abort.current.abort();
      const control = new AbortController();
      abort.current = control;
      pending.current.clear();
      try {
        const found = await fetchRows(query, first * CHUNK, (last - first + 1) * CHUNK, true, control.signal);
        if (control.signal.aborted) return;
        const before = state.current;
        const chunks = new Map<number, Row[]>();
        for (let chunk = first; chunk <= last; chunk += 1)
          chunks.set(chunk, found.items.slice((chunk - first) * CHUNK, (chunk - first + 1) * CHUNK));
        if (before.key === key) shift.current = movedBy(before.chunks, chunks, range.current[0]);
        put({ key, total: found.total, facets: found.facets ?? undefined, chunks, problem: undefined });
      } catch (error) {
        if (!control.signal.aborted) put({ problem: asProblem(error) });
      }
    },
    [key],
  );

  const loadChunk = async (chunk: number) => {
    pending.current.add(chunk);
    const { signal } = abort.current;
    try {
      const found = await fetchRows(query, chunk * CHUNK, CHUNK, false, signal);
      if (signal.aborted) return;
      put({ total: found.total, chunks: new Map(state.current.chunks).set(chunk, found.items), problem: undefined });
    } catch (error) {
      if (!signal.aborted) put({ problem: asProblem(error) });
    } finally {
      pending.current.delete(chunk);
    }
  };

  const reload = useCallback(() => {
    const [first, last] = range.current.map((index) => Math.floor(index / CHUNK)) as [number, number];
    void loadAll(first, last);
  }, [loadAll]);

  useEffect(() => {
    if (state.current.key === key) {
      reload();
      return;
    }
    range.current = [0, CHUNK - 1];
    void loadAll(0, 0);
    return () => abort.current.abort();
  }, [key]);

  useEffect(() => {
    let timer = 0;
    const stop = onEvents(
      ["catalog_changed", "source_synced", "approval_resolved", "job_changed", "reconnected"],
      () => {
        window.clearTimeout(timer);
        timer = window.setTimeout(reload, SETTLE_MS);
      },
    );
    return () => {
      window.clearTimeout(timer);
      stop();
    };
  }, [reload]);

  useLayoutEffect(() => {
    if (!shift.current) return;
    onShift(shift.current);
    shift.current = 0;
  });

  return {
    ...state.current,
    isBusy: state.current.key !== key && !state.current.problem,
    rowAt: (index) => state.current.chunks.get(Math.floor(index / CHUNK))?.[index % CHUNK],
    want: (first, last) => {
      range.current = [first, Math.max(first, last - 1)];
      if (state.current.key !== key) return;
      for (let chunk = Math.floor(first / CHUNK); chunk * CHUNK < last; chunk += 1)
        if (!state.current.chunks.has(chunk) && !pending.current.has(chunk)) void loadChunk(chunk);
    },
    reload,
  };
}

function fetchRows(query: Query, offset: number, limit: number, facets: boolean, signal: AbortSignal) {
  const { q, scopes, tags, sort } = query;
  const wanted = { q, scope: scopes, tags, ...(sort ? { sort, descending: sort === "size" || sort === "score" } : {}) };
  return ask(api.GET("/api/v1/catalog", { params: { query: { ...wanted, offset, limit, facets } }, signal }));
}

/** Return by how many rows the first row that was shown has moved. */
function movedBy(before: Map<number, Row[]>, after: Map<number, Row[]>, first: number): number {
  const shown = before.get(Math.floor(first / CHUNK))?.[first % CHUNK]?.address;
  if (!shown || first === 0) return 0;
  for (const [chunk, rows] of after) {
    const place = rows.findIndex((row) => row.address === shown);
    if (place >= 0) return chunk * CHUNK + place - first;
  }
  return 0;
}

function asProblem(error: unknown): Problem {
  return error instanceof Problem ? error : new Problem(0, "failed", String(error));
}
