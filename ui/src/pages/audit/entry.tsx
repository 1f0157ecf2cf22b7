// One entry of the audit: a line, and everything that is recorded with it when it is unfolded.
import type { Shapes } from "../../api/client";
import { ago, moment } from "../../format";
import { named, t } from "../../i18n";
import { Badge, type Tone } from "../../parts/badge";
import { Button } from "../../parts/controls";

type Row = Shapes["AuditRowShape"];

const TONES: Record<string, Tone> = {
  allowed: "good",
  approved: "good",
  refused: "bad",
  denied: "bad",
  failed: "bad",
  asked: "accent",
  expired: "warn",
  revoked: "warn",
};

/** Return what an entry is about: a skill, a setting, a token, a source, an organization or a user. */
function subjectOf({ slug, detail }: Row): string {
  const found = [slug, detail.setting, detail.name, detail.user].find((one) => typeof one === "string" && one);
  return (found as string | undefined) ?? "";
}

export function Entry({ row, onAccount }: { row: Row; onAccount: (slug: string) => void }) {
  return (
    <li>
      <details>
        <summary>
          <span class="quiet audit-number">{row.number}</span>
          <time title={moment(row.at)}>{ago(row.at)}</time>
          <span class="audit-what">
            <strong>{row.actor || t("audit.nobody")}</strong> {named("audit.do_", row.action)}{" "}
            {subjectOf(row) && <code>{subjectOf(row)}</code>}
          </span>
          <Badge tone={TONES[row.outcome] ?? "plain"}>{named("audit.was_", row.outcome)}</Badge>
        </summary>
        <dl class="facts">
          <dt>{t("audit.at")}</dt>
          <dd>{moment(row.at)}</dd>
          {Object.entries(row.detail).map(([name, value]) => (
            <Fact key={name} name={name} value={value} />
          ))}
          {row.digest && <Fact name={t("audit.content")} value={row.digest} />}
          <Fact name={t("audit.previous")} value={row.previous || "–"} />
          <Fact name={t("audit.hash")} value={row.hash} />
        </dl>
        {row.slug && (
          <p>
            <Button onClick={() => onAccount(row.slug)}>{t("audit.account_of", { name: row.slug })}</Button>
          </p>
        )}
      </details>
    </li>
  );
}

const DIGEST = /^[0-9a-f]{64}$/;

/** A name and its value: a text as it is, anything else as short JSON. */
export function Fact({ name, value }: { name: string; value: unknown }) {
  const isText = typeof value === "string";
  return (
    <>
      <dt>{name}</dt>
      <dd>
        {isText && !DIGEST.test(value) ? (
          value
        ) : (
          <code class={isText ? "digest" : undefined}>{isText ? value : JSON.stringify(value)}</code>
        )}
      </dd>
    </>
  );
}
