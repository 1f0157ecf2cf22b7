// What a sync did, or would do, with each skill of a source.

import type { Shapes } from "../../api/client";
import { t } from "../../i18n";
import { Badge, type Tone } from "../../parts/badge";
import { Button } from "../../parts/controls";
import { Words } from "../../parts/states";
import { type Finding, Findings, hasDanger } from "../browse/findings";

type Sync = Shapes["SyncShape"];
type Change = Shapes["ChangeShape"];

const STATUSES = ["added", "updated", "removed", "conflict", "invalid", "refused", "unchanged"] as const;
const TONES: Record<Change["status"], Tone> = {
  added: "good",
  updated: "accent",
  removed: "plain",
  unchanged: "plain",
  conflict: "warn",
  invalid: "bad",
  refused: "bad",
};
const SHOWN = 100;

/** Return how many skills have each status in one line: "3 added, 1 changed". */
export function counted(counts: Record<string, number>): string {
  return STATUSES.filter((status) => counts[status])
    .map((status) => t(`sources.count_${status}`, { count: counts[status] as number }))
    .join(", ");
}

export function kindName(kind: Shapes["SourceShape"]["source_type"]): string {
  return t(`sources.kind_${kind}`);
}

interface Props {
  result: Sync;
  /** Take the skill of the source in place of the one that was edited here. */
  onTake?: (slugs: string[]) => Promise<void>;
  onClose?: () => void;
}

export function Result({ result, onTake, onClose }: Props) {
  const waiting = result.skills.filter((change) => change.status === "added" || change.status === "updated").length;
  return (
    <section class="sources-result" aria-label={result.preview ? t("sources.would") : t("sources.did")}>
      <header>
        <h3>
          {result.preview ? t("sources.would") : t("sources.did")}{" "}
          <span class="quiet">{result.unchanged ? t("sources.unchanged") : counted(result.counts)}</span>
        </h3>
        {onClose && (
          <Button look="plain" onClick={onClose}>
            {t("sources.hide")}
          </Button>
        )}
      </header>
      {result.error && (
        <p class="sources-error">
          <Words text={`${String(result.error.message ?? "")} ${String(result.error.hint ?? "")}`} />
        </p>
      )}
      {result.warnings.length > 0 && <Findings findings={result.warnings as Finding[]} />}
      {result.skills.length > 0 && (
        <ul class="sources-changes">
          {result.skills.slice(0, SHOWN).map((change) => (
            <ChangeRow key={change.path + change.slug} change={change} onTake={onTake} />
          ))}
        </ul>
      )}
      {result.skills.length > SHOWN && (
        <p class="quiet">{t("sources.more", { count: result.skills.length - SHOWN })}</p>
      )}
      {!result.preview && waiting > 0 && (
        <p class="quiet">
          {t("sources.waiting", { count: waiting })} <a href="/approvals">{t("sources.approvals")}</a>
        </p>
      )}
    </section>
  );
}

function ChangeRow({ change, onTake }: { change: Change; onTake?: Props["onTake"] }) {
  const findings = change.findings as Finding[];
  const hasMore = findings.length > 0 || change.requests.length > 0 || change.diff !== "";
  const line = (
    <>
      <Badge tone={TONES[change.status]}>{t(`sources.is_${change.status}`)}</Badge>
      <strong>{change.slug || change.path}</strong>
      {hasDanger(findings) && <Badge tone="bad">{t("browse.danger")}</Badge>}
      <span class="quiet">{change.description.slice(0, 200)}</span>
    </>
  );
  return (
    <li>
      {hasMore ? (
        <details>
          <summary>{line}</summary>
          {change.requests.length > 0 && (
            <>
              <h4>{t("browse.reach")}</h4>
              <ul>
                {change.requests.map((request) => (
                  <li key={request}>{request}</li>
                ))}
              </ul>
            </>
          )}
          {findings.length > 0 && <Findings findings={findings} />}
          {change.diff && <pre tabIndex={0}>{change.diff.slice(0, 20_000)}</pre>}
        </details>
      ) : (
        <p class="sources-line">{line}</p>
      )}
      {change.message && (
        <p class="sources-note">
          <Words text={change.message} />{" "}
          {change.hint && (
            <span class="quiet">
              <Words text={change.hint} />
            </span>
          )}
        </p>
      )}
      {change.status === "conflict" && change.slug && onTake && (
        <Button onClick={() => onTake([change.slug])}>{t("sources.take")}</Button>
      )}
    </li>
  );
}
