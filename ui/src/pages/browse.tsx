// Skills of registries: search, trending, what one of them would bring, and its installation.

import { useEffect, useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { api, ask, type Shapes } from "../api/client";
import { useLoad, useSettled } from "../api/load";
import { ago, count } from "../format";
import { t } from "../i18n";
import { Badge } from "../parts/badge";
import { Choice, Search } from "../parts/controls";
import { Page } from "../parts/page";
import { Empty, Loading, ProblemBox } from "../parts/states";
import { Preview } from "./browse/preview";
import "../style/browse.css";

type Hit = Shapes["RegistryHitShape"];

const LIMIT = 30;
const REGISTRIES = ["skills.sh", "clawhub", "prowess"] as const;

/** Return the address of this page with these choices. */
function address(choices: { q?: string; registry?: string; skill?: string }): string {
  const given = Object.entries(choices).filter(([, value]) => value);
  return given.length ? `/browse?${new URLSearchParams(given as [string, string][])}` : "/browse";
}

export default function BrowsePage() {
  const { query, route } = useLocation();
  const registry = query.registry ?? "";
  const [words, setWords] = useState(query.q ?? "");
  const settled = useSettled(words.trim());
  const open = query.skill ?? "";
  // The address keeps the search, so that it can be sent to somebody and found again after going back.
  useEffect(() => {
    if (settled !== (query.q ?? "")) route(address({ q: settled, registry, skill: open }), true);
  }, [settled]);
  const found = useLoad(
    async (signal) => {
      const answer = settled
        ? ask(
            api.GET("/api/v1/skills/registry/search", {
              params: { query: { q: settled, limit: LIMIT, registry } },
              signal,
            }),
          )
        : ask(api.GET("/api/v1/skills/registry/trending", { params: { query: { limit: LIMIT, registry } }, signal }));
      return (await answer).skills;
    },
    [settled, registry],
    ["skills_state_changed"],
  );
  const chosen = registry || found.data?.[0]?.registry || "";
  return (
    <Page title={t("menu.browse")} lead={t("browse.lead")} isWide>
      <div class="toolbar">
        <Choice
          label={t("browse.registry")}
          value={chosen}
          options={REGISTRIES.map((name) => ({ value: name as string, label: registryName(name) }))}
          onChange={(name) => route(address({ q: settled, registry: name }), true)}
        />
        <Search label={t("browse.search")} value={words} onInput={setWords} />
      </div>
      <h2 class="browse-heading">
        {settled ? t("browse.results", { words: settled }) : t("browse.trending")}
        {found.data && found.data.length > 0 && <span class="quiet"> {count(found.data.length)}</span>}
      </h2>
      {found.problem && (
        <div class="browse-unreachable">
          <ProblemBox problem={found.problem} onRetry={found.reload} />
          <p class="quiet">{t("browse.unreachable")}</p>
        </div>
      )}
      {found.data === undefined && !found.problem && <Loading lines={6} />}
      {found.data?.length === 0 && (
        <Empty title={settled ? t("browse.nothing", { words: settled }) : t("browse.no_trending")}>
          <p>{settled ? t("browse.nothing_hint") : t("browse.no_trending_hint")}</p>
        </Empty>
      )}
      {found.data && found.data.length > 0 && (
        <ul
          class="grid browse-cards"
          aria-label={settled ? t("browse.results", { words: settled }) : t("browse.trending")}
        >
          {found.data.map((hit) => (
            <li key={`${hit.registry}:${hit.id}`}>
              <Card hit={hit} href={address({ q: settled, registry, skill: `${hit.registry}:${hit.id}` })} />
            </li>
          ))}
        </ul>
      )}
      {open && (
        <Preview id={open} onClose={() => route(address({ q: settled, registry }), true)} onInstalled={found.reload} />
      )}
    </Page>
  );
}

export function registryName(name: string): string {
  return name === "clawhub" ? "ClawHub" : name === "prowess" ? t("browse.own") : name;
}

function Card({ hit, href }: { hit: Hit; href: string }) {
  return (
    <article class="card browse-card">
      <h3>
        <a href={href}>{hit.name || hit.skill_id}</a>
      </h3>
      <p class="browse-source quiet">{hit.source || hit.id}</p>
      {hit.description && <p class="browse-description">{hit.description}</p>}
      {hit.why && <p class="browse-why quiet">{t("browse.why", { why: hit.why })}</p>}
      <p class="browse-marks">
        {hit.installed && <Badge tone="good">{t("browse.installed")}</Badge>}
        {hit.warnings.map((warning) => (
          <Badge key={warning} tone="warn" title={warning}>
            {warning}
          </Badge>
        ))}
        {hit.trending !== null && hit.trending <= 10 && (
          <Badge tone="accent">{t("browse.place", { place: hit.trending })}</Badge>
        )}
        {hit.installs !== null && <span class="quiet">{t("browse.installs", { count: hit.installs })}</span>}
        {hit.updated_at && <span class="quiet">{ago(hit.updated_at)}</span>}
      </p>
    </article>
  );
}
