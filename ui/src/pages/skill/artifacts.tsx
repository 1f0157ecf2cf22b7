// The artifacts of a skill: what each is, and its text.
import type { Shapes } from "../../api/client";
import type { Loaded } from "../../api/load";
import { bytes } from "../../format";
import { t } from "../../i18n";
import { Badge } from "../../parts/badge";
import { Markdown } from "../../parts/markdown";
import { Shown } from "../../parts/states";
import type { Artifacts } from "./data";

type Artifact = Shapes["ArtifactShape"];
const LONGEST = 50_000;
const PROSE = new Set(["instructions", "description", "approach", "example", "reference"]);

export default function ArtifactList({ found }: { found: Loaded<Artifacts> }) {
  return (
    <Shown of={found}>
      {({ artifacts }) => (
        <ul class="skill-artifacts">
          {artifacts.map((one) => (
            <li key={`${one.kind} ${one.name} ${one.variant ?? ""}`}>
              <OneArtifact artifact={one} />
            </li>
          ))}
        </ul>
      )}
    </Shown>
  );
}

function OneArtifact({ artifact }: { artifact: Artifact }) {
  const settings = Object.entries(artifact).filter(([name, value]) => isSetting(name, value));
  return (
    <details>
      <summary>
        <strong>{artifact.name}</strong>
        <Badge tone="accent">{artifact.kind.replace(/_/g, " ")}</Badge>
        {artifact.variant && <Badge>{artifact.variant}</Badge>}
        {artifact.runs && <Badge tone="good">{t("skill.runs_badge")}</Badge>}
        {artifact.path && <span class="quiet">{artifact.path}</span>}
        {artifact.size > 0 && <span class="quiet skill-size">{bytes(artifact.size)}</span>}
      </summary>
      {(artifact.variables.length > 0 ||
        artifact.fallback ||
        artifact.assertions.length > 0 ||
        settings.length > 0) && (
        <dl class="facts">
          {artifact.variables.length > 0 && (
            <>
              <dt>{t("skill.variables")}</dt>
              <dd>{artifact.variables.join(", ")}</dd>
            </>
          )}
          {artifact.fallback && (
            <>
              <dt>{t("skill.fallback")}</dt>
              <dd>{artifact.fallback}</dd>
            </>
          )}
          {artifact.assertions.length > 0 && (
            <>
              <dt>{t("skill.assertions")}</dt>
              <dd>{artifact.assertions.map((one) => String(one.description ?? one.type ?? "")).join("; ")}</dd>
            </>
          )}
          {settings.map(([name, value]) => (
            <Setting key={name} name={name} value={value} />
          ))}
        </dl>
      )}
      <Content artifact={artifact} />
    </details>
  );
}

const SHOWN = new Set([
  ...["kind", "name", "ordinal", "content", "path", "variant", "fallback", "assertions", "size", "variables", "runs"],
]);

/** Return true for a setting of the kind that says something. */
function isSetting(name: string, value: unknown): boolean {
  if (SHOWN.has(name) || value === null || value === "" || value === false) return false;
  return typeof value !== "object" || Object.keys(value as object).length > 0;
}

function Setting({ name, value }: { name: string; value: unknown }) {
  return (
    <>
      <dt>{name.replace(/_/g, " ")}</dt>
      <dd>{typeof value === "object" ? <pre>{JSON.stringify(value, null, 2)}</pre> : String(value)}</dd>
    </>
  );
}

function Content({ artifact }: { artifact: Artifact }) {
  if (artifact.content === null) return <p class="quiet">{t("skill.not_text")}</p>;
  if (!artifact.content) return null;
  const text = artifact.content.slice(0, LONGEST);
  const isProse = PROSE.has(artifact.kind) && (!artifact.path || artifact.path.endsWith(".md"));
  return isProse ? <Markdown text={text} /> : <pre tabIndex={0}>{text}</pre>;
}
