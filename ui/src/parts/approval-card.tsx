// One request for approval: who asks for what, everything that is known about it, and the two answers.
import type { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { api, ask, type Problem, type Shapes } from "../api/client";
import { useLoad } from "../api/load";
import { ago, moment } from "../format";
import { language, type MessageKey, t } from "../i18n";
import { useKeys } from "../keys";
import { may } from "../state";
import { Badge } from "./badge";
import { Button, Field } from "./controls";
import { Icon } from "./icons";
import { Patch } from "./patch";
import { FileList, Findings, Requests } from "./reviewed";
import { asProblem, Loading, ProblemBox, Words } from "./states";
import { attempt, say } from "./toast";
import "../style/card.css";

export type Approval = Shapes["ApprovalShape"];
type Detail = Shapes["ApprovalDetailShape"];

interface Props {
  approval: Approval;
  /** Called with the request after it was answered, with true if it was answered by this card. */
  onAnswered?: (answered: Approval, isOwn: boolean) => void;
  /** Called to show the card in a larger place. */
  onOpen?: () => void;
  /** True if `a` approves and `d` denies while the card is shown. */
  hasKeys?: boolean;
  /** True to show the files at once. */
  isWhole?: boolean;
}

// A key or click that was meant for the card before must not answer this one.
const ARMED_AFTER_MS = 400;

const ACTIONS = [
  "enable",
  "load",
  "load_script",
  "run",
  "fetch_live",
  "install",
  "update",
  "delete",
  "connect",
  "read_tool",
  "call_tool",
] as const;

/** Return "enable", "run" and so on in the language of the page. Unknown actions stay as they are. */
export function actionName(action: string): string {
  return (ACTIONS as readonly string[]).includes(action) ? t(`card.do_${action}` as MessageKey) : action;
}

/** Return what a request is about: the tool of a connector, or the title of the skill. */
export function subjectOf(approval: Approval): string {
  const title = String(approval.detail.title ?? "");
  return title || approval.slug;
}

export function ApprovalCard({ approval, onAnswered, onOpen, hasKeys = false, isWhole = false }: Props) {
  const detail = useLoad(
    (signal) => ask(api.GET("/api/v1/approvals/{id}", { params: { path: { id: approval.id } }, signal })),
    [approval.id, approval.state],
    ["approval_resolved"],
  );
  const [isDenying, setDenying] = useState(false);
  const [note, setNote] = useState("");
  const [change, setChange] = useState("");
  const [problem, setProblem] = useState<Problem>();
  const shown = detail.data;
  const state = shown?.state ?? approval.state;
  const isArmed = useArmed(shown?.card_sha256 ?? "") && state === "pending";

  const answer = async (isApproved: boolean) => {
    if (!shown || !isArmed) return;
    setProblem(undefined);
    try {
      const answered = await ask(
        api.POST("/api/v1/approvals/{id}", {
          params: { path: { id: shown.id } },
          // The answer is about the text that is on the screen. The server refuses it if the request is another one.
          body: { approved: isApproved, note: isApproved ? "" : note, shown: shown.card_sha256 },
        }),
      );
      say(t(isApproved ? "card.said_approved" : "card.said_denied", { name: subjectOf(shown) }));
      setDenying(false);
      detail.replace({ ...shown, ...answered });
      onAnswered?.(answered, true);
    } catch (error) {
      const found = asProblem(error);
      setProblem(found);
      if (found.status !== 409) return;
      const now = await attempt(ask(api.GET("/api/v1/approvals/{id}", { params: { path: { id: shown.id } } })));
      if (!now) return;
      detail.replace(now);
      if (now.state !== "pending") onAnswered?.(now, false);
      else if (now.card_sha256 !== shown.card_sha256) setChange(t("card.changed"));
    }
  };
  useKeys(
    hasKeys && state === "pending" && !isDenying
      ? { a: (e) => !e.repeat && answer(true), d: () => setDenying(true) }
      : {},
  );

  return (
    <article class="approval-card" aria-label={t("card.label", { name: subjectOf(approval) })}>
      <header>
        <h2>
          <Asked approval={approval} />
        </h2>
        <span class="beside">
          <State approval={shown ?? approval} />
          {onOpen && (
            <Button look="plain" onClick={onOpen}>
              {t("card.open")}
              {hasKeys && (
                <span class="key" aria-hidden="true">
                  v
                </span>
              )}
            </Button>
          )}
        </span>
      </header>
      {change && (
        <p class="notice" role="alert">
          {change}
        </p>
      )}
      {problem && <ProblemBox problem={problem} />}
      {detail.problem && <ProblemBox problem={detail.problem} onRetry={detail.reload} />}
      {shown ? <Facts detail={shown} isWhole={isWhole} /> : !detail.problem && <Loading />}
      {state === "pending" && may("approvals.resolve") && (
        <footer>
          {isDenying ? (
            <form
              class="deny"
              onSubmit={(event) => {
                event.preventDefault();
                answer(false);
              }}
            >
              <Field label={t("card.reason")} hint={t("card.reason_hint")}>
                {(ids) => (
                  <input
                    {...ids}
                    value={note}
                    maxLength={4000}
                    ref={(element) => element?.focus()}
                    onInput={(event) => setNote(event.currentTarget.value)}
                    onKeyDown={(event) => event.key === "Escape" && setDenying(false)}
                  />
                )}
              </Field>
              <Button look="danger" type="submit" disabled={!isArmed}>
                {t("card.deny")}
              </Button>
              <Button look="plain" onClick={() => setDenying(false)}>
                {t("states.cancel")}
              </Button>
            </form>
          ) : (
            <>
              <Button look="primary" disabled={!isArmed} onClick={() => answer(true)}>
                <Icon name="check" />
                {t("card.approve")}
                {hasKeys && (
                  <span class="key" aria-hidden="true">
                    a
                  </span>
                )}
              </Button>
              <Button look="danger" disabled={!isArmed} onClick={() => setDenying(true)}>
                {t("card.deny")}
                {hasKeys && (
                  <span class="key" aria-hidden="true">
                    d
                  </span>
                )}
              </Button>
              <span class="quiet until">{t("card.expires", { when: ago(approval.expires_at) })}</span>
            </>
          )}
        </footer>
      )}
    </article>
  );
}

/** Return true when this text has been on the screen long enough to be answered. */
function useArmed(shown: string): boolean {
  const [armed, setArmed] = useState("");
  useEffect(() => {
    if (!shown) return;
    const timer = window.setTimeout(() => setArmed(shown), ARMED_AFTER_MS);
    return () => window.clearTimeout(timer);
  }, [shown]);
  return shown !== "" && armed === shown;
}

function Asked({ approval }: { approval: Approval }) {
  return (
    <>
      <strong>{approval.requester}</strong> {t("card.wants")} {actionName(approval.action)}{" "}
      <strong>{subjectOf(approval)}</strong>
    </>
  );
}

const TONES = { pending: "accent", approved: "good", denied: "bad", expired: "plain", revoked: "warn" } as const;

export function State({ approval }: { approval: Approval }) {
  return <Badge tone={TONES[approval.state]}>{t(`card.state_${approval.state}`)}</Badge>;
}

function Facts({ detail, isWhole }: { detail: Detail; isWhole: boolean }) {
  const card = detail.detail;
  const text = (name: string) => (typeof card[name] === "string" ? (card[name] as string) : "");
  const isCall = detail.slug.startsWith("connector:");
  return (
    <>
      <Outcome detail={detail} />
      {text("why") && (
        <p class="why">
          <Words text={text("why")} />
        </p>
      )}
      <Requests requests={detail.requests} />
      <Findings findings={detail.findings} />
      <Replaced hides={card.hides} />
      <dl class="facts">
        <Fact name="card.given_reason">{detail.reason}</Fact>
        <Fact name="card.about">{text("description")}</Fact>
        <Fact name="card.slug">
          <code>{detail.slug}</code>
        </Fact>
        <Fact name="card.origin">{text("origin") || text("source_type")}</Fact>
        <Fact name="card.written_by">{text("written_by")}</Fact>
        <Fact name="card.score">{text("score")}</Fact>
        <Fact name="card.asked">
          <time title={moment(detail.created_at)}>{ago(detail.created_at)}</time>
        </Fact>
        <Fact name="card.size">
          {Number(card.chars) > 0 ? t("card.characters", { count: Number(card.chars) }) : ""}
        </Fact>
        <Fact name="card.content">
          <code class="digest">{detail.digest}</code>
        </Fact>
      </dl>
      <Previous previous={card.previous} />
      {detail.diff && (
        <details open={detail.diff.length < 20_000}>
          <summary>{t("card.diff")}</summary>
          <Patch text={detail.diff} label={t("card.diff")} />
          {card.diff_cut === true && <p class="notice">{t("card.diff_cut")}</p>}
        </details>
      )}
      {text("text") && (
        <details open>
          <summary>{t(isCall ? "card.arguments" : "card.text")}</summary>
          <pre tabIndex={0} class="source">
            {text("text")}
          </pre>
        </details>
      )}
      {detail.files ? (
        <FileList files={detail.files} isOpen={isWhole || !detail.diff} />
      ) : (
        !text("text") && <p class="quiet">{t("card.no_files")}</p>
      )}
      <details>
        <summary>{t("card.record")}</summary>
        <pre tabIndex={0}>{detail.card}</pre>
      </details>
    </>
  );
}

function Outcome({ detail }: { detail: Detail }) {
  if (detail.state === "pending") return null;
  const by = detail.resolver ?? "";
  return (
    <p class="outcome">
      {by
        ? t("card.answered_by", {
            state: t(`card.state_${detail.state}`),
            name: by,
            when: ago(detail.resolved_at ?? ""),
          })
        : t("card.ended", { state: t(`card.state_${detail.state}`) })}
      {detail.note && <q>{detail.note}</q>}
      {detail.state === "approved" && (
        <span class="quiet"> {t("card.valid_until", { when: moment(detail.expires_at) })}</span>
      )}
    </p>
  );
}

function Fact({ name, children }: { name: MessageKey; children: ComponentChildren }) {
  if (children === "" || children === undefined || children === null) return null;
  return (
    <>
      <dt>{t(name)}</dt>
      <dd>{children}</dd>
    </>
  );
}

function Replaced({ hides }: { hides: unknown }) {
  if (!Array.isArray(hides) || hides.length === 0) return null;
  return <p class="notice">{t("card.hides", { scopes: list(hides.map(String)) })}</p>;
}

/** What differs from the content that was approved before. */
function Previous({ previous }: { previous: unknown }) {
  if (typeof previous !== "object" || previous === null) return null;
  const before = previous as Record<string, unknown>;
  const files = (["changed", "added", "removed"] as const).flatMap((kind) => {
    const found = before[kind];
    return Array.isArray(found) && found.length > 0
      ? [t(`card.files_${kind}`, { files: list(found.map(String)) })]
      : [];
  });
  return (
    <p class="notice">
      {t("card.previous", { name: String(before.by || "?") })} <code class="digest">{String(before.digest ?? "")}</code>{" "}
      {files.join(" ")}
    </p>
  );
}

function list(values: string[]): string {
  return new Intl.ListFormat(language).format(values);
}
