// All runs: a list that grows as runs happen, and charts of what they cost and how they went.
import { useRef } from "preact/hooks";
import { lazy, useLocation } from "preact-iso";
import { api, ask } from "../api/client";
import { useLoad } from "../api/load";
import { ago, cost, count, moment } from "../format";
import { named, t } from "../i18n";
import { Badge } from "../parts/badge";
import { Button, Choice, Tabs } from "../parts/controls";
import { Page } from "../parts/page";
import { Empty, Loading, ProblemBox, Words } from "../parts/states";
import { addressOf, asQuery, DAYS, type Days, type Filter, isFiltered, readFilter, type Sort } from "./traces/filter";
import { useTraces } from "./traces/rows";
import { AGENT, nameOf, STATUSES, type Status, StatusBadge, Took, type Trace } from "./traces/status";
import "../style/traces.css";

const Figures = lazy(() => import("./traces/figures"));

/** Near the top of the page, rows that appear above do not move what somebody reads. */
const TOP_PIXELS = 80;

type View = "runs" | "charts";

/** The kinds of artifacts that are run. */
const KINDS = [
  "prompt_template",
  "json_generation",
  "review",
  "code_template",
  "function",
  "script",
  "http_call",
  "cli_command",
  "dspy_module",
] as const;

export default function TracesPage() {
  const { query, route } = useLocation();
  const filter = readFilter(query);
  const view: View = query.view === "charts" ? "charts" : "runs";
  const change = (changes: Partial<Filter>) =>
    route(addressOf({ ...filter, ...changes }, view === "charts" ? view : ""), true);
  const { sort: _, ...wanted } = asQuery(filter);
  const exported = new URLSearchParams(Object.entries(wanted).map(([name, value]) => [name, String(value)]));
  return (
    <Page
      title={t("menu.traces")}
      lead={t("traces.lead")}
      isWide
      actions={
        <a
          class="button"
          href={`/api/v1/traces/export?${exported}`}
          download="traces.jsonl"
          title={t("traces.export_hint")}
        >
          {t("traces.export")}
        </a>
      }
    >
      <Filters filter={filter} onChange={change} isList={view === "runs"} />
      <Tabs<View>
        label={t("traces.views")}
        value={view}
        options={[
          { value: "runs", label: t("traces.runs") },
          { value: "charts", label: t("traces.charts") },
        ]}
        onChange={(chosen) => route(addressOf(filter, chosen === "charts" ? chosen : ""), true)}
      >
        {view === "runs" ? (
          <Runs filter={filter} onChange={change} />
        ) : (
          <Figures filter={filter} by={query.by === "model" ? "model" : "skill"} />
        )}
      </Tabs>
    </Page>
  );
}

interface FilterProps {
  filter: Filter;
  onChange: (changes: Partial<Filter>) => void;
}

function Filters({ filter, onChange, isList }: FilterProps & { isList: boolean }) {
  const { skill, days } = asQuery(filter);
  const time = days === undefined ? {} : { days };
  const skills = useLoad(
    (signal) => ask(api.GET("/api/v1/stats", { params: { query: { by: "skill", ...time } }, signal })),
    [days],
    ["run_finished"],
  );
  const models = useLoad(
    (signal) =>
      ask(api.GET("/api/v1/stats", { params: { query: { by: "model", ...time, ...(skill && { skill }) } }, signal })),
    [days, skill],
    ["run_finished"],
  );
  const states = models.data?.total.statuses ?? {};
  const total = models.data?.total.runs;
  const shown = STATUSES.filter((one) => states[one] || filter.status === one);
  return (
    <div class="traces-filters">
      <Choice<Days>
        label={t("traces.time")}
        value={filter.days}
        options={DAYS.map((value) => ({ value, label: t(`traces.last_${value}`) }))}
        onChange={(chosen) => onChange({ days: chosen })}
      />
      <Names
        label={t("traces.skill")}
        all={t("traces.all_skills")}
        value={filter.skill}
        names={(skills.data?.rows ?? []).map((row) => row.name)}
        show={(name) => (name === AGENT ? t("traces.agent") : name)}
        onChange={(chosen) => onChange({ skill: chosen })}
      />
      {isList && (
        <Names
          label={t("traces.model")}
          all={t("traces.all_models")}
          value={filter.model}
          names={(models.data?.rows ?? []).map((row) => row.name).filter(Boolean)}
          onChange={(chosen) => onChange({ model: chosen })}
        />
      )}
      {isList && (
        <Names
          label={t("traces.kind")}
          all={t("traces.all_kinds")}
          value={filter.kind}
          names={[...KINDS]}
          show={(name) => named("editor.kind_", name).replaceAll("_", " ")}
          onChange={(chosen) => onChange({ kind: chosen })}
        />
      )}
      {isList && (shown.length > 1 || filter.status) && (
        <Choice<Status | "">
          label={t("traces.status")}
          value={filter.status}
          options={[
            { value: "", label: t("traces.any_state"), ...(total !== undefined && { count: total }) },
            ...shown.map((value) => ({ value, label: t(`traces.status_${value}`), count: states[value] ?? 0 })),
          ]}
          onChange={(chosen) => onChange({ status: chosen })}
        />
      )}
    </div>
  );
}

interface NamesProps {
  label: string;
  all: string;
  value: string;
  names: string[];
  /** Returns what a person reads for a name. */
  show?: (name: string) => string;
  onChange: (value: string) => void;
}

function Names({ label, all, value, names, show = (name) => name, onChange }: NamesProps) {
  const options = value && !names.includes(value) ? [value, ...names] : names;
  return (
    <select
      class="traces-names"
      aria-label={label}
      value={value}
      onChange={(event) => onChange(event.currentTarget.value)}
    >
      <option value="">{all}</option>
      {options.map((name) => (
        <option key={name} value={name}>
          {show(name)}
        </option>
      ))}
    </select>
  );
}

function Runs({ filter, onChange }: FilterProps) {
  const table = useRef<HTMLDivElement>(null);
  const list = useTraces(filter, () => window.scrollY < TOP_PIXELS && !table.current?.matches(":hover, :focus-within"));
  const { rows } = list;
  if (list.problem && !rows) return <ProblemBox problem={list.problem} onRetry={list.reload} />;
  if (!rows) return <Loading lines={8} />;
  if (rows.length === 0) return <None filter={filter} onChange={onChange} />;
  return (
    <>
      <div role="status" class="traces-fresh">
        {list.fresh > 0 && <Button onClick={list.showFresh}>{t("traces.fresh", { count: list.fresh })}</Button>}
      </div>
      <div ref={table} class="scroll">
        <table class="traces-table">
          <colgroup>
            <col />
            <col class="traces-col-status" />
            <col class="traces-col-number" />
            <col class="traces-col-number" />
            <col class="traces-col-number" />
            <col class="traces-col-number" />
            <col class="traces-col-started" />
          </colgroup>
          <thead>
            <tr>
              <th>{t("traces.what")}</th>
              <th>{t("traces.status")}</th>
              <Sorted column="duration_ms" label={t("traces.duration")} filter={filter} onChange={onChange} isNumber />
              <th class="number">{t("traces.tokens")}</th>
              <Sorted column="estimated_cost" label={t("traces.cost")} filter={filter} onChange={onChange} isNumber />
              <th>{t("traces.assertions")}</th>
              <Sorted column="started_at" label={t("traces.started")} filter={filter} onChange={onChange} />
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <Row key={row.id} row={row} />
            ))}
          </tbody>
        </table>
      </div>
      {list.problem && <ProblemBox problem={list.problem} onRetry={list.reload} />}
      <p class="traces-more">
        <span class="quiet">{t("traces.shown", { shown: rows.length, total: Math.max(list.total, rows.length) })}</span>
        {list.hasMore && <Button onClick={list.more}>{t("traces.more")}</Button>}
      </p>
    </>
  );
}

interface SortedProps extends FilterProps {
  column: Sort;
  label: string;
  isNumber?: boolean;
}

/** The head of a column that can be sorted by: the highest values first. */
function Sorted({ column, label, filter, onChange, isNumber }: SortedProps) {
  const isHere = filter.sort === column;
  return (
    <th class={isNumber ? "number" : undefined} aria-sort={isHere ? "descending" : undefined}>
      <button
        type="button"
        class="traces-sort"
        title={t("traces.sort_by", { column: label })}
        onClick={() => onChange({ sort: column })}
      >
        {label}
        <span aria-hidden="true">{isHere ? " ↓" : ""}</span>
      </button>
    </th>
  );
}

function Row({ row }: { row: Trace }) {
  const tokens = (row.input_tokens ?? 0) + (row.output_tokens ?? 0);
  return (
    <tr>
      <td class="traces-what">
        <p class="traces-name">
          <a href={`/traces/${row.id}`}>{nameOf(row)}</a> <span class="quiet">{row.artifact_name}</span>
          {row.fallback_of && <Badge>{t("traces.instead")}</Badge>}
        </p>
        {row.model_id && <p class="traces-model">{row.model_id}</p>}
        {row.error && <p class="traces-error">{row.error}</p>}
      </td>
      <td class="traces-status">
        <StatusBadge status={row.status} />
      </td>
      <td class="number traces-took">
        <Took trace={row} />
      </td>
      <td class="number traces-tokens">{tokens ? count(tokens) : ""}</td>
      <td class="number traces-cost">{row.estimated_cost === null ? "" : cost(row.estimated_cost)}</td>
      <td class="traces-assertions">
        {row.assertions_run > 0 && (
          <Badge tone={row.assertions_passed === row.assertions_run ? "good" : "bad"}>
            {row.assertions_passed}/{row.assertions_run}
          </Badge>
        )}
      </td>
      <td class="traces-started quiet">
        <time dateTime={row.started_at} title={moment(row.started_at)}>
          {ago(row.started_at)}
        </time>
      </td>
    </tr>
  );
}

function None({ filter, onChange }: FilterProps) {
  if (isFiltered(filter) || filter.days !== "30")
    return (
      <Empty title={t("traces.none_found")}>
        <Button
          onClick={() => onChange({ skill: "", model: "", status: "", session: "", run: "", kind: "", days: "30" })}
        >
          {t("traces.clear")}
        </Button>
      </Empty>
    );
  return (
    <Empty title={t("traces.none_title")}>
      <p>
        <Words text={t("traces.none_text")} />
      </p>
      <p class="traces-actions">
        <a class="button" href="/skills">
          {t("traces.open_skills")}
        </a>
        <a class="button" href="/chat">
          {t("traces.open_chat")}
        </a>
      </p>
    </Empty>
  );
}
