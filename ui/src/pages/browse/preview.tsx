// One skill of a registry before it is installed: what it is, what it may reach, what was found in it, and its text.

import { useState } from "preact/hooks";
import { api, ask, type Problem, type Shapes } from "../../api/client";
import { useLoad } from "../../api/load";
import { bytes, count } from "../../format";
import { t } from "../../i18n";
import { Badge } from "../../parts/badge";
import { Button, Choice, Tabs } from "../../parts/controls";
import { Dialog } from "../../parts/dialog";
import { Markdown } from "../../parts/markdown";
import { ReachBadge } from "../../parts/reach-badge";
import { asProblem, ProblemBox, Shown } from "../../parts/states";
import { say } from "../../parts/toast";
import { may, me } from "../../state";
import { type Finding, Findings, hasDanger } from "./findings";

type Detail = Shapes["RegistryPreviewShape"];
type Panel = "about" | "text" | "files";
type Scope = "org" | "user";

const LONGEST_TEXT = 20_000;

interface Props {
  /** `REGISTRY:ID`. */
  id: string;
  onClose: () => void;
  onInstalled: () => void;
}

export function Preview({ id, onClose, onInstalled }: Props) {
  const loaded = useLoad(
    (signal) => ask(api.GET("/api/v1/skills/registry/metadata", { params: { query: { id } }, signal })),
    [id],
  );
  const detail = loaded.data;
  const installed = () => {
    loaded.reload();
    onInstalled();
  };
  return (
    <Dialog
      title={detail?.title || detail?.entry.name || id.replace(/^[^:]*:/, "")}
      onClose={onClose}
      isWide
      actions={detail && <Install key={detail.digest} detail={detail} onInstalled={installed} />}
    >
      <Shown of={loaded}>{(shown) => <Body detail={shown} />}</Shown>
    </Dialog>
  );
}

function Body({ detail }: { detail: Detail }) {
  const [panel, setPanel] = useState<Panel>("about");
  const options = [
    { value: "about" as const, label: t("browse.about") },
    { value: "text" as const, label: t("browse.text") },
    { value: "files" as const, label: t("browse.files"), count: detail.files.length },
  ];
  return (
    <>
      <p class="browse-lead">{detail.description || detail.entry.description}</p>
      <Tabs label={t("browse.parts")} value={panel} options={options} onChange={setPanel}>
        {panel === "about" && <About detail={detail} />}
        {panel === "text" && <Text content={detail.content} />}
        {panel === "files" && <Files files={detail.files} />}
      </Tabs>
    </>
  );
}

function About({ detail }: { detail: Detail }) {
  const { entry } = detail;
  const isPage = /^https?:\/\//.test(entry.url);
  return (
    <div class="browse-about">
      <section>
        <h3>{t("browse.reach")}</h3>
        <Reach reach={detail.reach} requests={detail.requests} />
        <h3>{t("browse.findings")}</h3>
        <Findings findings={detail.findings as Finding[]} />
        {detail.problems.length > 0 && (
          <>
            <h3>{t("browse.problems")}</h3>
            <Findings findings={detail.problems as Finding[]} />
          </>
        )}
        {detail.audits.length > 0 && <Audits audits={detail.audits} />}
      </section>
      <section>
        <h3>{t("browse.facts")}</h3>
        <dl class="facts">
          <dt>{t("browse.source")}</dt>
          <dd>
            {isPage ? (
              <a href={entry.url} target="_blank" rel="noopener noreferrer nofollow">
                {entry.source || entry.id}
              </a>
            ) : (
              entry.source || entry.id
            )}
          </dd>
          <dt>{t("browse.slug")}</dt>
          <dd>
            <code>{detail.slug}</code>
          </dd>
          {(detail.revision || entry.version) && (
            <>
              <dt>{t("browse.version")}</dt>
              <dd>{(entry.version || detail.revision).slice(0, 40)}</dd>
            </>
          )}
          {entry.installs !== null && (
            <>
              <dt>{t("browse.installs_label")}</dt>
              <dd>{count(entry.installs)}</dd>
            </>
          )}
          <dt>{t("browse.prompt")}</dt>
          <dd>{t("browse.chars", { count: detail.content_length })}</dd>
          <dt>{t("browse.size")}</dt>
          <dd>{bytes(detail.size)}</dd>
          <dt>{t("browse.kinds")}</dt>
          <dd>{detail.kinds.join(", ") || "–"}</dd>
          <dt>{t("browse.digest")}</dt>
          <dd>
            <code title={detail.digest}>{detail.digest.slice(0, 12)}</code>
          </dd>
        </dl>
      </section>
    </div>
  );
}

export function Reach({ reach, requests }: Pick<Detail, "reach" | "requests">) {
  return (
    <>
      <p>
        <ReachBadge reach={reach} />
      </p>
      {requests.length > 0 && (
        <ul>
          {requests.map((request) => (
            <li key={request}>{request}</li>
          ))}
        </ul>
      )}
    </>
  );
}

function Audits({ audits }: { audits: Detail["audits"] }) {
  return (
    <>
      <h3>{t("browse.audits")}</h3>
      <p class="quiet">{t("browse.audits_hint")}</p>
      <ul class="browse-findings">
        {audits.map((audit, number) => (
          <li key={number}>
            <Badge tone={audit.status === "pass" ? "good" : audit.status === "fail" ? "bad" : "warn"}>
              {String(audit.status ?? "")}
            </Badge>
            <p>
              {String(audit.provider ?? "")} <span class="quiet">{String(audit.summary ?? "")}</span>
            </p>
          </li>
        ))}
      </ul>
    </>
  );
}

/** A text that nobody has accepted: without its frontmatter, cut if it is very long. */
function Text({ content }: { content: string }) {
  const [isWhole, setWhole] = useState(false);
  const body = content.replace(/^---\n[\s\S]*?\n---\n/, "");
  const isCut = !isWhole && body.length > LONGEST_TEXT;
  if (!body.trim()) return <p class="quiet">{t("browse.no_text")}</p>;
  return (
    <>
      <p class="quiet">{t("browse.untrusted")}</p>
      <div class="browse-text">
        <Markdown text={isCut ? body.slice(0, LONGEST_TEXT) : body} />
      </div>
      {isCut && <Button onClick={() => setWhole(true)}>{t("browse.whole", { count: body.length })}</Button>}
    </>
  );
}

function Files({ files }: { files: Detail["files"] }) {
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            <th>{t("browse.file")}</th>
            <th class="number">{t("browse.size")}</th>
          </tr>
        </thead>
        <tbody>
          {files.map((file) => (
            <tr key={String(file.path)}>
              <td>
                <code>{String(file.path)}</code>
              </td>
              <td class="number">{bytes(Number(file.size ?? 0))}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** The end of the dialog: why it cannot be installed, or where it goes, what is accepted with it, and the button. */
function Install({ detail, onInstalled }: { detail: Detail; onInstalled: () => void }) {
  const [scope, setScope] = useState<Scope>("org");
  const [isRead, setRead] = useState(false);
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  const [done, setDone] = useState<string | undefined>(undefined);
  const isDangerous = hasDanger(detail.findings as Finding[]);
  const here = detail.installed;
  if (done) return <Installed slug={done} digest={detail.digest} />;
  if (here?.same === true)
    return (
      <p class="browse-state">
        <Badge tone="good">{t("browse.installed")}</Badge> {t("browse.same_files")}{" "}
        <a href={`/skills/${encodeURIComponent(detail.slug)}`}>{t("browse.open")}</a>
      </p>
    );
  if (!detail.ok) return <p class="browse-state">{t("browse.not_valid")}</p>;
  if (!may("skills.write")) return <p class="browse-state">{t("browse.may_not")}</p>;
  const install = async () => {
    setProblem(undefined);
    try {
      const made = await ask(
        api.POST("/api/v1/skills", {
          body: {
            source_type: "marketplace",
            source_url: detail.entry.url || `${detail.entry.registry}:${detail.entry.id}`,
            digest: detail.digest,
            scope,
          },
        }),
      );
      say(t("browse.done", { name: made.name }));
      setDone(made.slug);
      onInstalled();
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  return (
    <div class="browse-install">
      {problem && <ProblemBox problem={problem} />}
      {here && (
        <p class="quiet">
          {t(here.source_url === detail.entry.url ? "browse.older_here" : "browse.other_here", { slug: detail.slug })}
        </p>
      )}
      {isDangerous && (
        <label class="browse-read">
          <input type="checkbox" checked={isRead} onChange={(event) => setRead(event.currentTarget.checked)} />{" "}
          {t("browse.read")}
        </label>
      )}
      <div class="browse-install-row">
        {me.value?.organization_id && (
          <Choice
            label={t("browse.for")}
            value={scope}
            options={[
              { value: "org", label: t("browse.for_org") },
              { value: "user", label: t("browse.for_me") },
            ]}
            onChange={setScope}
          />
        )}
        <span class="quiet">{t("browse.asks_first")}</span>
        <Button look="primary" disabled={isDangerous && !isRead} onClick={install}>
          {t("browse.install")}
        </Button>
      </div>
    </div>
  );
}

/** What comes after an installation: agents ask before they use it, until a person accepts it. */
function Installed({ slug, digest }: { slug: string; digest: string }) {
  const [isAccepted, setAccepted] = useState(false);
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  const accept = async () => {
    setProblem(undefined);
    try {
      const answer = await ask(api.POST("/api/v1/trust", { body: { skills: [{ slug, digest, shown: "" }] } }));
      setAccepted(answer.accepted.length > 0);
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  return (
    <div class="browse-install">
      {problem && <ProblemBox problem={problem} />}
      <div class="browse-install-row">
        <span class="browse-state">
          <Badge tone="good">{t("browse.installed")}</Badge>{" "}
          {isAccepted ? t("browse.accepted") : t("browse.not_accepted")}
        </span>
        {!isAccepted && may("approvals.resolve") && <Button onClick={accept}>{t("browse.accept")}</Button>}
        <a class="button primary" href={`/skills/${encodeURIComponent(slug)}`}>
          {t("browse.open")}
        </a>
      </div>
    </div>
  );
}
