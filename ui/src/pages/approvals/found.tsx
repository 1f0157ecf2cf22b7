// Skills that were found in folders and that nobody has accepted.
import { useState } from "preact/hooks";
import { api, ask, type Shapes } from "../../api/client";
import { useLoad } from "../../api/load";
import { t } from "../../i18n";
import { Badge } from "../../parts/badge";
import { Button } from "../../parts/controls";
import { Patch } from "../../parts/patch";
import { FileList, Findings, Requests } from "../../parts/reviewed";
import { Empty, Shown } from "../../parts/states";
import { attempt, say } from "../../parts/toast";

type FoundSkill = Shapes["FoundSkillShape"];

export function Found({ items, onChange }: { items: FoundSkill[]; onChange: () => void }) {
  if (items.length === 0)
    return (
      <Empty title={t("approvals.found_none")}>
        <p>{t("approvals.found_none_text")}</p>
      </Empty>
    );
  return (
    <>
      <p class="quiet">{t("approvals.found_text")}</p>
      {items.map((skill) => (
        <FoundCard key={`${skill.scope}:${skill.slug}`} skill={skill} onChange={onChange} />
      ))}
    </>
  );
}

function FoundCard({ skill, onChange }: { skill: FoundSkill; onChange: () => void }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <article class="card approvals-found" aria-label={skill.title || skill.slug}>
      <header>
        <div>
          <h2>{skill.title || skill.slug}</h2>
          <p class="quiet">
            <code>{skill.slug}</code> <Badge>{skill.scope}</Badge>{" "}
            {skill.accepted && <Badge tone="warn">{t("approvals.changed")}</Badge>}{" "}
            {skill.findings.length > 0 && (
              <Badge tone={skill.findings.some((one) => one.severity === "danger") ? "bad" : "warn"}>
                {t("approvals.findings", { count: skill.findings.length })}
              </Badge>
            )}
          </p>
        </div>
        <Button aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {t(isOpen ? "approvals.fold" : "approvals.review")}
        </Button>
      </header>
      <p>{skill.description}</p>
      {isOpen && <Review skill={skill} onChange={onChange} />}
    </article>
  );
}

function Review({ skill, onChange }: { skill: FoundSkill; onChange: () => void }) {
  const address = `${skill.scope}:${skill.slug}`;
  const [isChanged, setChanged] = useState(false);
  const detail = useLoad(
    (signal) => ask(api.GET("/api/v1/trust/found/{slug}", { params: { path: { slug: address } }, signal })),
    [address],
  );
  const accept = async (shown: Shapes["FoundSkillDetailShape"]) => {
    // Exactly what is on the screen: its digest, and the hash of the text about it.
    const content = { slug: address, digest: shown.digest, shown: shown.card_sha256 };
    const outcome = await attempt(ask(api.POST("/api/v1/trust", { body: { skills: [content] } })));
    if (!outcome) return;
    if (outcome.accepted.length > 0) {
      say(t("approvals.said_accepted", { name: shown.title || shown.slug }));
      onChange();
    } else {
      setChanged(true);
      detail.reload();
    }
  };
  return (
    <Shown of={detail}>
      {(shown) => (
        <>
          {(isChanged || shown.content === null) && (
            <p class="notice" role="alert">
              {t("approvals.changed_meanwhile")}
            </p>
          )}
          <Requests requests={shown.requests} />
          <Findings findings={shown.findings} />
          {shown.hides.length > 0 && <p class="notice">{t("card.hides", { scopes: shown.hides.join(", ") })}</p>}
          <dl class="facts">
            {shown.written_by && (
              <>
                <dt>{t("card.written_by")}</dt>
                <dd>{shown.written_by}</dd>
              </>
            )}
            <dt>{t("card.content")}</dt>
            <dd>
              <code class="digest">{shown.digest}</code>
            </dd>
          </dl>
          {shown.diff && (
            <details open>
              <summary>{t("card.diff")}</summary>
              <Patch text={shown.diff} label={t("card.diff")} />
            </details>
          )}
          {shown.content && <FileList files={shown.content} />}
          <footer>
            <Button look="primary" disabled={shown.content === null} onClick={() => accept(shown)}>
              {t("approvals.accept")}
            </Button>
            <span class="quiet">{t("approvals.accept_text")}</span>
          </footer>
        </>
      )}
    </Shown>
  );
}
