// All skills: filter them, search them, open one, add new ones.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { api, ask } from "../api/client";
import { useLoad } from "../api/load";
import { count } from "../format";
import { t } from "../i18n";
import { Button, Choice, Search } from "../parts/controls";
import { Icon } from "../parts/icons";
import { Page } from "../parts/page";
import { Empty, Loading, ProblemBox } from "../parts/states";
import { VirtualList } from "../parts/virtual";
import { may } from "../state";
import { type Query, type Scope, type Sort, useCatalog } from "./skills/catalog";
import { FILE_TYPES, ImportDialog } from "./skills/import";
import { SkillRow } from "./skills/row";
import "../style/skills.css";

type Filter = "all" | "user" | "org" | "workspace" | "system";
const FILTERS: Record<Filter, Scope[]> = {
  all: [],
  user: ["user"],
  org: ["org", "account"],
  workspace: ["workspace"],
  system: ["system"],
};
const TAGS_SHOWN = 10;
const SEARCH_WAIT_MS = 120;
const NARROW = "(max-width: 640px)";

/** Where the list was scrolled to when another page was opened, by its address. */
const positions = new Map<string, number>();

export default function SkillsPage() {
  const { url, query: address, route } = useLocation();
  const filter: Filter = (address.scope as Filter) in FILTERS ? (address.scope as Filter) : "all";
  const tags = address.tag ? address.tag.split(",") : [];
  const sort = (["name", "size", "score"].includes(address.sort ?? "") ? address.sort : "") as Sort | "";
  const [typed, setTyped] = useState(address.q ?? "");
  const text = address.q ?? "";
  /** The search that this page has put into the address. */
  const written = useRef(text);
  const opensFirst = useRef(false);
  const list = useRef<HTMLDivElement>(null);

  const isNarrow = useNarrow();
  const rowHeight = (isNarrow ? 96 : 66) + (text ? 24 : 0);
  const query: Query = { q: text, scopes: FILTERS[filter], tags, sort };
  const catalog = useCatalog(query, (rows) => window.scrollBy(0, rows * rowHeight));
  useScrollPosition(url, catalog.total !== undefined);

  const go = (changes: Record<string, string>) => {
    const next = new URLSearchParams({ ...address, ...changes });
    for (const [name, value] of [...next]) if (!value || (name === "scope" && value === "all")) next.delete(name);
    route(`/skills${next.size ? `?${next}` : ""}`, true);
  };
  useEffect(() => {
    if (typed.trim() === text) return;
    const timer = window.setTimeout(() => {
      written.current = typed.trim();
      go({ q: written.current });
    }, SEARCH_WAIT_MS);
    return () => window.clearTimeout(timer);
  }, [typed]);
  // A link to another search, or to all skills. What is typed meanwhile is not in the address yet, and stays.
  useEffect(() => {
    if (text === written.current) return;
    written.current = text;
    setTyped(text);
  }, [text]);
  const isCurrent = !catalog.isBusy && typed.trim() === text;
  useEffect(() => {
    const first = catalog.rowAt(0);
    if (!opensFirst.current || !isCurrent) return;
    opensFirst.current = false;
    if (first) route(`/skills/${encodeURIComponent(first.slug)}`);
  });

  const moveFocus = (event: KeyboardEvent) => {
    const links = [...(list.current?.querySelectorAll<HTMLElement>(".skills-name a") ?? [])];
    const place = links.indexOf(document.activeElement as HTMLElement);
    if (event.key === "ArrowDown" && place < links.length - 1) links[place + 1]?.focus();
    else if (event.key === "ArrowUp" && place > 0) links[place - 1]?.focus();
    else if ((event.key === "ArrowUp" && place === 0) || event.key === "Escape")
      document.querySelector<HTMLElement>("main input[type=search]")?.focus();
    else return;
    event.preventDefault();
  };
  const searchKeys = (event: KeyboardEvent) => {
    if (!(event.target instanceof HTMLInputElement) || event.target.type !== "search") return;
    if (event.key === "ArrowDown") {
      event.preventDefault();
      list.current?.querySelector<HTMLElement>(".skills-name a")?.focus();
    } else if (event.key === "Enter" && typed.trim()) {
      opensFirst.current = true;
      if (isCurrent && catalog.rowAt(0)) route(`/skills/${encodeURIComponent(catalog.rowAt(0)?.slug ?? "")}`);
    }
  };

  const total = catalog.total;
  const isFiltered = Boolean(text || filter !== "all" || tags.length);
  const clear = () => {
    setTyped("");
    route("/skills", true);
  };
  return (
    <Page
      title={t("menu.skills")}
      lead={t("skills.lead")}
      isWide
      actions={may("skills.write") && <Add onImported={catalog.reload} />}
    >
      <FoundHint />
      {/* biome-ignore lint/a11y/noStaticElementInteractions: the keys belong to the search box and the list inside */}
      <div class="toolbar skills-toolbar" onKeyDown={searchKeys}>
        <Search label={t("skills.search")} value={typed} onInput={setTyped} />
        <ScopeChoice filter={filter} scopes={catalog.facets?.scopes} onChange={(scope) => go({ scope })} />
      </div>
      <Tags chosen={tags} found={catalog.facets?.tags ?? []} onChange={(chosen) => go({ tag: chosen.join(",") })} />
      {catalog.problem && <ProblemBox problem={catalog.problem} onRetry={catalog.reload} />}
      <div class="skills-head">
        <p role="status" class="quiet">
          {total !== undefined && t("skills.count", { count: total })}
        </p>
        <select
          class="skills-sort"
          aria-label={t("skills.sort")}
          value={sort}
          onChange={(event) => go({ sort: event.currentTarget.value })}
        >
          <option value="">{text ? t("skills.sort_best") : t("skills.sort_slug")}</option>
          <option value="name">{t("skills.sort_name")}</option>
          <option value="size">{t("skills.sort_size")}</option>
          <option value="score">{t("skills.sort_score")}</option>
        </select>
      </div>
      {total === undefined && !catalog.problem && <Loading lines={8} />}
      {total === 0 && (isFiltered ? <NothingFound onClear={clear} /> : <NoSkills onImported={catalog.reload} />)}
      {!!total && (
        // biome-ignore lint/a11y/noStaticElementInteractions: the arrow keys move among the links inside
        <div ref={list} class={catalog.isBusy ? "skills-list busy" : "skills-list"} onKeyDown={moveFocus}>
          <VirtualList
            label={t("menu.skills")}
            count={total}
            rowHeight={rowHeight}
            itemKey={(index) => catalog.rowAt(index)?.address ?? `#${index}`}
            render={(index) => <SkillRow row={catalog.rowAt(index)} />}
            onRange={catalog.want}
          />
        </div>
      )}
    </Page>
  );
}

interface ScopeProps {
  filter: Filter;
  /** How many skills each scope has; undefined while it is not known. */
  scopes: Record<string, number> | undefined;
  onChange: (filter: Filter) => void;
}

function ScopeChoice({ filter, scopes, onChange }: ScopeProps) {
  const sum = (names: string[]) => names.reduce((total, name) => total + (scopes?.[name] ?? 0), 0);
  const options = (Object.keys(FILTERS) as Filter[])
    .map((value) => ({
      value,
      label: t(`skills.filter_${value}`),
      ...(scopes ? { count: sum(value === "all" ? Object.keys(scopes) : FILTERS[value]) } : {}),
    }))
    .filter((option) => option.value !== "workspace" || option.count || filter === "workspace");
  return <Choice label={t("skills.scope")} value={filter} options={options} onChange={onChange} />;
}

interface TagsProps {
  chosen: string[];
  found: { name: string; count: number }[];
  onChange: (tags: string[]) => void;
}

function Tags({ chosen, found, onChange }: TagsProps) {
  const others = found.filter((tag) => !chosen.includes(tag.name));
  if (!chosen.length && !others.length) return null;
  return (
    <fieldset class="skills-tagbar">
      <legend class="hidden-text">{t("skills.tags")}</legend>
      {chosen.map((name) => (
        <button
          type="button"
          key={name}
          class="skills-tag"
          aria-pressed="true"
          onClick={() => onChange(chosen.filter((one) => one !== name))}
        >
          {name} <span aria-hidden="true">×</span>
        </button>
      ))}
      {others.slice(0, TAGS_SHOWN).map((tag) => (
        <button
          type="button"
          key={tag.name}
          class="skills-tag"
          aria-pressed="false"
          onClick={() => onChange([...chosen, tag.name])}
        >
          {tag.name} <span class="quiet">{count(tag.count)}</span>
        </button>
      ))}
      {others.length > TAGS_SHOWN && (
        <select
          class="skills-sort"
          aria-label={t("skills.more_tags")}
          value=""
          onChange={(event) => event.currentTarget.value && onChange([...chosen, event.currentTarget.value])}
        >
          <option value="">{t("skills.more_tags")}</option>
          {others.slice(TAGS_SHOWN).map((tag) => (
            <option key={tag.name} value={tag.name}>
              {tag.name} ({count(tag.count)})
            </option>
          ))}
        </select>
      )}
    </fieldset>
  );
}

/** Say that skills in folders wait for somebody to accept them. */
function FoundHint() {
  const isApprover = may("approvals.resolve");
  const found = useLoad(
    async (signal) =>
      isApprover ? ask(api.GET("/api/v1/trust/found", { params: { query: { limit: 1 } }, signal })) : undefined,
    [isApprover],
    ["catalog_changed", "approval_resolved"],
  );
  if (!found.data?.total) return null;
  return (
    <p class="skills-hint">
      <Icon name="shield" />
      <span>{t("skills.found", { count: found.data.total })}</span>
      <a href="/approvals?tab=found">{t("skills.found_link")}</a>
    </p>
  );
}

function Add({ onImported }: { onImported: () => void }) {
  return (
    <>
      <ImportButton onImported={onImported} />
      <a class="button primary" href="/skills/new">
        <Icon name="plus" />
        {t("skills.new")}
      </a>
    </>
  );
}

function ImportButton({ onImported }: { onImported: () => void }) {
  const [file, setFile] = useState<File>();
  const input = useRef<HTMLInputElement>(null);
  const close = () => {
    setFile(undefined);
    if (input.current) input.current.value = "";
  };
  return (
    <>
      <input
        ref={input}
        type="file"
        hidden
        accept={FILE_TYPES}
        aria-label={t("skills.import_file")}
        onChange={(event) => setFile(event.currentTarget.files?.[0])}
      />
      <Button onClick={() => input.current?.click()}>{t("skills.import")}</Button>
      {file && (
        <ImportDialog
          file={file}
          onClose={close}
          onDone={() => {
            close();
            onImported();
          }}
        />
      )}
    </>
  );
}

function NoSkills({ onImported }: { onImported: () => void }) {
  return (
    <Empty title={t("skills.none")}>
      <p>{t("skills.none_text")}</p>
      <div class="skills-empty-actions">
        {may("skills.write") && <Add onImported={onImported} />}
        <a class="button" href="/browse">
          {t("skills.browse")}
        </a>
      </div>
    </Empty>
  );
}

function NothingFound({ onClear }: { onClear: () => void }) {
  return (
    <Empty title={t("skills.nothing")}>
      <p>{t("skills.nothing_text")}</p>
      <div class="skills-empty-actions">
        <Button onClick={onClear}>{t("skills.clear")}</Button>
        <a class="button" href="/browse">
          {t("skills.browse")}
        </a>
      </div>
    </Empty>
  );
}

function useNarrow(): boolean {
  const [isNarrow, setNarrow] = useState(() => matchMedia(NARROW).matches);
  useEffect(() => {
    const media = matchMedia(NARROW);
    const change = () => setNarrow(media.matches);
    media.addEventListener("change", change);
    return () => media.removeEventListener("change", change);
  }, []);
  return isNarrow;
}

/** Keep the place in the list while another page is open, and go back to it with the browser's back button. */
function useScrollPosition(address: string, isReady: boolean) {
  useLayoutEffect(() => {
    const place = positions.get(address);
    if (isReady && place) window.scrollTo(0, place);
    positions.delete(address);
  }, [isReady]);
  useEffect(() => {
    const note = () => positions.set(address, window.scrollY);
    window.addEventListener("scroll", note, { passive: true });
    return () => window.removeEventListener("scroll", note);
  }, [address]);
}
