// One skill: what it says, what it may reach, how it was changed, and what it did.
import { useState } from "preact/hooks";
import { lazy, useLocation, useRoute } from "preact-iso";
import { api, ask } from "../api/client";
import { useLoad } from "../api/load";
import { t } from "../i18n";
import { Badge } from "../parts/badge";
import { Tabs } from "../parts/controls";
import { Page } from "../parts/page";
import { SkillBadges, scopeLabel } from "../parts/skill-badges";
import { Empty, Loading, ProblemBox } from "../parts/states";
import { Accept } from "./skill/accept";
import { Actions } from "./skill/actions";
import { Activity } from "./skill/activity";
import { addressOf, bodyOf, loadSkill, parameters, type Skill } from "./skill/data";
import { Facts, Findings, Reach } from "./skill/facts";
import { Files } from "./skill/files";
import { WhyNot } from "./skill/why-not";
import "../style/skill.css";

const Markdown = lazy(() => import("../parts/markdown").then((found) => found.Markdown));
const Versions = lazy(() => import("./skill/versions"));
const ArtifactList = lazy(() => import("./skill/artifacts"));

const TABS = ["text", "artifacts", "files", "versions", "activity", "why"] as const;
type Tab = (typeof TABS)[number];
/** Those that use the whole width. */
const WIDE = new Set<Tab>(["files", "versions", "activity"]);
const LONGEST = 60_000;

export default function SkillPage() {
  const { params } = useRoute();
  const id = params.slug ?? "";
  const found = useLoad(
    (signal) => loadSkill(id, signal),
    [id],
    ["catalog_changed", "source_synced", "approval_resolved"],
  );
  const back = { href: "/skills", label: t("menu.skills") };
  if (!found.data)
    return (
      <Page title={id} back={back}>
        {found.problem?.status === 404 ? (
          <Missing id={id} />
        ) : found.problem ? (
          <ProblemBox problem={found.problem} onRetry={found.reload} />
        ) : (
          <Loading lines={8} />
        )}
      </Page>
    );
  return <Shown key={addressOf(found.data)} skill={found.data} onChange={found.replace} onReload={found.reload} />;
}

interface Props {
  skill: Skill;
  onChange: (skill: Skill) => void;
  onReload: () => void;
}

function Shown({ skill, onChange, onReload }: Props) {
  const { query, path, route } = useLocation();
  const tab: Tab = TABS.find((one) => one === query.tab) ?? "text";
  const address = addressOf(skill);
  const artifacts = useLoad(
    (signal) => ask(api.GET("/api/v1/skills/{id}/artifacts", { params: parameters(address), signal })),
    [address, skill.digest],
  );
  const findings = useLoad(
    (signal) => ask(api.GET("/api/v1/skills/{id}/findings", { params: parameters(address), signal })),
    [address, skill.digest],
  );
  const isRunnable = artifacts.data?.artifacts.some((one) => one.runs) ?? false;
  return (
    <Page
      title={skill.name}
      isWide
      back={{ href: "/skills", label: t("menu.skills") }}
      lead={skill.description}
      actions={<Actions skill={skill} isRunnable={isRunnable} onChange={onChange} />}
    >
      <p class="skill-line">
        <code>{skill.slug}</code>
        <Badge>{scopeLabel(skill.scope)}</Badge>
        <SkillBadges skill={skill} />
        {skill.tags.map((tag) => (
          <a key={tag} class="skill-tag" href={`/skills?tag=${encodeURIComponent(tag)}`}>
            {tag}
          </a>
        ))}
      </p>
      {skill.trust !== "local" && <Accept skill={skill} onDone={onReload} />}
      <div class={WIDE.has(tab) ? undefined : "skill-columns"}>
        <div class="skill-main">
          <Tabs
            label={t("skill.parts")}
            value={tab}
            options={TABS.map((value) => ({
              value,
              label: t(`skill.tab_${value}`),
              ...(value === "artifacts" && artifacts.data ? { count: artifacts.data.artifacts.length } : {}),
            }))}
            onChange={(value) => route(value === "text" ? path : `${path}?tab=${value}`, true)}
          >
            {tab === "text" && <Text skill={skill} />}
            {tab === "artifacts" && <ArtifactList found={artifacts} />}
            {tab === "files" && <Files address={address} digest={skill.digest} />}
            {tab === "versions" && <Versions skill={skill} onChange={onChange} />}
            {tab === "activity" && <Activity skill={skill} />}
            {tab === "why" && <WhyNot skill={skill} />}
          </Tabs>
        </div>
        {!WIDE.has(tab) && (
          <aside class="skill-side" aria-label={t("skill.about")}>
            <Facts skill={skill} />
            <Reach found={artifacts} />
            <Findings found={findings} />
          </aside>
        )}
      </div>
    </Page>
  );
}

/** The text for people. A long one is shown in full on request. */
function Text({ skill }: { skill: Skill }) {
  const [isWhole, setWhole] = useState(false);
  if (skill.content === null) return <p>{t("skill.text_hidden")}</p>;
  const body = bodyOf(skill.content);
  if (!body.trim()) return <p class="quiet">{t("skill.no_text")}</p>;
  const isCut = !isWhole && body.length > LONGEST;
  const text = isCut ? body.slice(0, LONGEST) : body;
  return (
    <>
      {isJson(body) ? <pre tabIndex={0}>{text}</pre> : <Markdown text={text} />}
      {isCut && (
        <button type="button" class="button" onClick={() => setWhole(true)}>
          {t("skill.show_all")}
        </button>
      )}
    </>
  );
}

/** Return True for the manifest of a skill that is not a Markdown document. */
function isJson(text: string): boolean {
  try {
    return typeof JSON.parse(text) === "object";
  } catch {
    return false;
  }
}

function Missing({ id }: { id: string }) {
  return (
    <Empty title={t("skill.missing", { name: id })}>
      <p>{t("skill.missing_text")}</p>
      <a class="button" href="/skills">
        {t("skill.to_list")}
      </a>
    </Empty>
  );
}
