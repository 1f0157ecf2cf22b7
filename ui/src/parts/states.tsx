// What a page shows before, without and instead of its data.
import type { ComponentChildren } from "preact";
import { Problem } from "../api/client";
import type { Loaded, Pages } from "../api/load";
import { t } from "../i18n";
import { Button } from "./controls";

export function Loading({ lines = 4 }: { lines?: number }) {
  return (
    <div class="loading" role="status" aria-label={t("states.loading")}>
      {Array.from({ length: lines }, (_, number) => (
        <div key={number} class="line" />
      ))}
    </div>
  );
}

/** An empty place that says what would be here and how to get it. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}

/** A text of the server in which names and commands stand between backticks. */
export function Words({ text }: { text: string }) {
  return <>{text.split("`").map((piece, number) => (number % 2 ? <code key={number}>{piece}</code> : piece))}</>;
}

/** Return what to do about a problem. For some, the server's hint is about the command line. */
export function hintOf(problem: { code?: string; hint?: string }): string {
  if (problem.code === "no-model") return t("states.no_model");
  if (problem.code === "approval-required") return t("states.approval_required");
  return problem.hint ?? "";
}

/** Scroll to a problem at the top of a dialog, whose buttons are at its end. */
function showInDialog(element: HTMLElement | null) {
  if (element?.closest("dialog")) element.scrollIntoView({ block: "nearest" });
}

export function ProblemBox({ problem, onRetry }: { problem: Problem; onRetry?: () => void }) {
  return (
    <div class="problem" role="alert" ref={showInDialog}>
      <p>
        <Words
          text={
            problem.isOffline ? t("states.offline") : problem.message || t("states.failed", { status: problem.status })
          }
        />
      </p>
      {hintOf(problem) && (
        <p class="quiet">
          <Words text={hintOf(problem)} />
        </p>
      )}
      {onRetry && <Button onClick={onRetry}>{t("states.retry")}</Button>}
    </div>
  );
}

/** Show loaded data, or that it is loading, or why it is not there. */
export function Shown<T>({ of, children }: { of: Loaded<T>; children: (data: T) => ComponentChildren }) {
  return (
    <>
      {of.problem && <ProblemBox problem={of.problem} onRetry={of.reload} />}
      {of.data !== undefined ? children(of.data) : !of.problem && <Loading />}
    </>
  );
}

/** Below a list: how many of how many entries it shows, and a button for more of them. */
export function More<T>({ of }: { of: Pages<T> }) {
  const { data } = of;
  if (!data || data.items.length === 0) return null;
  const shown = data.items.length;
  return (
    <p class="more quiet">
      <span role="status">{t("states.shown", { shown, count: Math.max(shown, data.total) })}</span>
      {data.next_cursor && <Button onClick={of.more}>{t("states.more")}</Button>}
    </p>
  );
}

/** Return any error as a problem that can be shown. */
export function asProblem(error: unknown): Problem {
  return error instanceof Problem ? error : new Problem(0, "failed", String(error));
}
