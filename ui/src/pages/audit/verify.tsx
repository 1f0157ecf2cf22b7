import { useState } from "preact/hooks";
import { api, ask, type Shapes } from "../../api/client";
import { t } from "../../i18n";
import { Button } from "../../parts/controls";
import { Icon } from "../../parts/icons";
import { attempt } from "../../parts/toast";

/** Check the chain of the audit, and say clearly what the result is. */
export function Verify() {
  const [verdict, setVerdict] = useState<Shapes["AuditVerdictShape"]>();
  const check = async () => {
    setVerdict(undefined);
    setVerdict(await attempt(ask(api.GET("/api/v1/audit/verify"))));
  };
  return (
    <section class="audit-verify" aria-label={t("audit.verify")}>
      <Button onClick={check}>
        <Icon name="shield" />
        {t("audit.verify")}
      </Button>
      <div role="status">
        {verdict && (
          <p class={verdict.ok ? "audit-verdict good" : "audit-verdict bad"}>
            <strong>
              {verdict.ok
                ? t("audit.intact", { count: verdict.rows })
                : t("audit.broken", { number: verdict.first_bad ?? "?" })}
            </strong>{" "}
            {verdict.problem}
            {verdict.ok && verdict.head && (
              <>
                <br />
                {t("audit.head")} <code class="digest">{verdict.head}</code>
              </>
            )}
          </p>
        )}
      </div>
    </section>
  );
}
