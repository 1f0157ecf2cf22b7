// A skill that nobody has accepted: what it is, and the button that accepts exactly that.

import { useState } from "preact/hooks";
import { lazy } from "preact-iso";
import { api, ask } from "../../api/client";
import { useLoad } from "../../api/load";
import { t } from "../../i18n";
import { Button } from "../../parts/controls";
import { Dialog } from "../../parts/dialog";
import { Icon } from "../../parts/icons";
import { Shown } from "../../parts/states";
import { attempt, say } from "../../parts/toast";
import { may } from "../../state";
import { addressOf, type Skill } from "./data";

const UnifiedDiff = lazy(() => import("../../parts/diff").then((found) => found.UnifiedDiff));

export function Accept({ skill, onDone }: { skill: Skill; onDone: () => void }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <div class="skill-notice">
      <Icon name="shield" />
      <p>{t("skill.unaccepted")}</p>
      {may("approvals.resolve") && <Button onClick={() => setOpen(true)}>{t("skill.review")}</Button>}
      {isOpen && (
        <Review
          address={addressOf(skill)}
          name={skill.name}
          onClose={() => setOpen(false)}
          onDone={() => {
            setOpen(false);
            onDone();
          }}
        />
      )}
    </div>
  );
}

interface Props {
  address: string;
  name: string;
  onClose: () => void;
  onDone: () => void;
}

function Review({ address, name, onClose, onDone }: Props) {
  const found = useLoad(
    (signal) => ask(api.GET("/api/v1/trust/found/{slug}", { params: { path: { slug: address } }, signal })),
    [address],
  );
  const accept = async () => {
    const seen = found.data;
    if (!seen) return;
    const skills = [{ slug: address, digest: seen.digest, shown: seen.card_sha256 }];
    const done = await attempt(ask(api.POST("/api/v1/trust", { body: { skills } })));
    if (!done) return;
    if (done.accepted.length) {
      say(t("skill.accepted", { name }));
      onDone();
    } else {
      say(t("skill.changed_meanwhile"), "bad");
      found.reload();
    }
  };
  return (
    <Dialog
      title={t("skill.review_title", { name })}
      isWide
      onClose={onClose}
      answer={{ text: t("skill.accept"), look: "primary", onClick: accept, disabled: !found.data }}
    >
      <Shown of={found}>
        {(seen) => (
          <>
            <dl class="facts">
              {seen.card.split("\n").map((line, number) => (
                <Fact key={number} line={line} />
              ))}
            </dl>
            {seen.diff && (
              <>
                <h3>{t("skill.review_diff")}</h3>
                <UnifiedDiff text={seen.diff} />
              </>
            )}
            {seen.content?.map((file) => (
              <details key={file.path} open={file.path === "SKILL.md"}>
                <summary>
                  <code>{file.path}</code>
                </summary>
                <pre tabIndex={0}>{file.text ?? t("skill.not_text")}</pre>
              </details>
            ))}
          </>
        )}
      </Shown>
    </Dialog>
  );
}

/** One line of the card: what it is about, and what it says. */
function Fact({ line }: { line: string }) {
  const end = line.indexOf(": ");
  return (
    <>
      <dt>{end > 0 ? line.slice(0, end) : ""}</dt>
      <dd>{end > 0 ? line.slice(end + 2) : line}</dd>
    </>
  );
}
