// What a run used outside itself, and what it was refused.

import type { MessageKey } from "../../i18n";
import { t } from "../../i18n";
import { Badge } from "../../parts/badge";
import { Json } from "../../parts/json";

const KINDS = ["hosts", "env", "read", "written", "skills", "binaries", "packages", "pages", "models"];

interface Entry {
  kind: string;
  name: string;
  times: number;
  isRefused: boolean;
}

export function Receipt({ receipt }: { receipt: unknown }) {
  if (typeof receipt !== "object" || receipt === null) return null;
  const { touched, refused, declared } = receipt as Record<string, unknown>;
  const entries = [...read(refused, true), ...read(touched, false)];
  const isDeclared = typeof declared === "object" && declared !== null && Object.keys(declared).length > 0;
  if (entries.length === 0 && !isDeclared) return null;
  return (
    <section aria-labelledby="trace-receipt">
      <h2 id="trace-receipt">{t("trace.receipt")}</h2>
      {entries.length > 0 && (
        <ul class="trace-receipt">
          {entries.map((entry) => (
            <li key={`${entry.isRefused} ${entry.kind} ${entry.name}`}>
              <Badge tone={entry.isRefused ? "bad" : "plain"}>
                {entry.isRefused ? t("trace.refused") : t("trace.touched")}
              </Badge>
              <span class="quiet">
                {KINDS.includes(entry.kind) ? t(`trace.kind_${entry.kind}` as MessageKey) : entry.kind}
              </span>
              <code>{entry.name}</code>
              {entry.times > 1 && <span class="quiet">{t("trace.times", { count: entry.times })}</span>}
            </li>
          ))}
        </ul>
      )}
      {isDeclared && (
        <details>
          <summary>{t("trace.declared")}</summary>
          <Json value={declared} />
        </details>
      )}
    </section>
  );
}

function read(part: unknown, isRefused: boolean): Entry[] {
  if (typeof part !== "object" || part === null) return [];
  return Object.entries(part).flatMap(([kind, names]) =>
    (Array.isArray(names) ? names : []).map((one: { name?: unknown; times?: unknown }) => ({
      kind,
      name: String(one.name ?? ""),
      times: Number(one.times ?? 1),
      isRefused,
    })),
  );
}
