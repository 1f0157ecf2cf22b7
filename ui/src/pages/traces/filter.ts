// The filters of the list. They are part of the address, so that a filtered list can be linked and reloaded.
import { STATUSES, type Status } from "./status";

export const DAYS = ["1", "7", "30", "all"] as const;
export type Days = (typeof DAYS)[number];

export const SORTS = ["started_at", "duration_ms", "estimated_cost"] as const;
/** The column whose highest values come first. */
export type Sort = (typeof SORTS)[number];

export interface Filter {
  skill: string;
  model: string;
  status: Status | "";
  session: string;
  run: string;
  kind: string;
  sort: Sort;
  days: Days;
}

export function readFilter(query: Record<string, string>): Filter {
  const days = query.days as Days;
  return {
    skill: query.skill ?? "",
    model: query.model ?? "",
    status: STATUSES.find((one) => one === query.status) ?? "",
    session: query.session ?? "",
    run: query.run ?? "",
    kind: query.kind ?? "",
    sort: SORTS.find((one) => one === query.sort) ?? "started_at",
    days: DAYS.includes(days) ? days : "30",
  };
}

/** Return the filter as parameters of the API; those that are empty are left out. */
export function asQuery(filter: Filter) {
  const { skill, model, status, session, run, kind, sort } = filter;
  return {
    ...(skill && { skill }),
    ...(model && { model }),
    ...(status && { status }),
    ...(session && { session }),
    ...(run && { run }),
    ...(kind && { kind }),
    ...(sort !== "started_at" && { sort }),
    ...(filter.days !== "all" && { days: Number(filter.days) }),
  };
}

/** Return the address of a list with a filter. */
export function addressOf(filter: Filter, view: string): string {
  const sort = filter.sort === "started_at" ? "" : filter.sort;
  const days = filter.days === "30" ? "" : filter.days;
  const given = Object.entries({ ...filter, sort, days, view }).filter(([, value]) => value);
  const query = new URLSearchParams(given).toString();
  return query ? `/traces?${query}` : "/traces";
}

export function isFiltered(filter: Filter): boolean {
  return Boolean(filter.skill || filter.model || filter.status || filter.session || filter.run || filter.kind);
}
