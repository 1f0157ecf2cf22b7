// What a check of files found, most severe first. All of it quotes files that nobody has accepted, so it is text only.
import { useState } from "preact/hooks";
import { t } from "../../i18n";
import { Badge, type Tone } from "../../parts/badge";
import { Button } from "../../parts/controls";
import { Words } from "../../parts/states";

export interface Finding {
  severity?: string;
  kind?: string;
  path?: string;
  line?: number | null;
  excerpt?: string;
  message?: string;
  hint?: string;
}

const FIRST = 12;
const LONGEST_EXCERPT = 300;
const TONES: Record<string, Tone> = { danger: "bad", error: "bad", warning: "warn" };

/** Return True if one of the findings is severe. */
export function hasDanger(findings: readonly Finding[]): boolean {
  return findings.some((finding) => finding.severity === "danger");
}

export function Findings({ findings, empty }: { findings: readonly Finding[]; empty?: string }) {
  const [isWhole, setWhole] = useState(false);
  if (findings.length === 0) return <p class="quiet">{empty ?? t("browse.no_findings")}</p>;
  const shown = isWhole ? findings : findings.slice(0, FIRST);
  return (
    <>
      <ul class="browse-findings">
        {shown.map((finding, number) => (
          <li key={number}>
            <Badge tone={TONES[finding.severity ?? ""] ?? "plain"}>{severity(finding.severity)}</Badge>
            <div>
              <p>
                <Words text={finding.message ?? ""} />{" "}
                {finding.path && (
                  <span class="quiet">
                    {finding.path}
                    {finding.line ? `:${finding.line}` : ""}
                  </span>
                )}
              </p>
              {finding.excerpt && <pre>{finding.excerpt.slice(0, LONGEST_EXCERPT)}</pre>}
              {finding.hint && (
                <p class="quiet">
                  <Words text={finding.hint} />
                </p>
              )}
            </div>
          </li>
        ))}
      </ul>
      {shown.length < findings.length && (
        <Button look="plain" onClick={() => setWhole(true)}>
          {t("browse.all_findings", { count: findings.length })}
        </Button>
      )}
    </>
  );
}

function severity(word: string | undefined): string {
  switch (word) {
    case "danger":
      return t("browse.danger");
    case "warning":
      return t("browse.warning");
    case "error":
      return t("browse.error");
    default:
      return t("browse.note");
  }
}
