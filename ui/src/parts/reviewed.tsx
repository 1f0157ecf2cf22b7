// What a person reads before trusting a skill: what it asks for, what the scan found, and its files.

import { useState } from "preact/hooks";
import type { Shapes } from "../api/client";
import { bytes } from "../format";
import { t } from "../i18n";
import { Badge, type Tone } from "./badge";
import { Button, Choice } from "./controls";
import { Markdown } from "./markdown";

type ReviewedFile = Shapes["ReviewedFileShape"];

const LONG_CHARS = 3_000;

export function Requests({ requests }: { requests: string[] }) {
  if (requests.length === 0) return null;
  return (
    <section class="requests" aria-label={t("card.requests")}>
      <h3>{t("card.requests")}</h3>
      <ul>
        {requests.map((request) => (
          <li key={request}>{request}</li>
        ))}
      </ul>
    </section>
  );
}

const TONES: Record<string, Tone> = { danger: "bad", warning: "warn" };

export function Findings({ findings }: { findings: Record<string, unknown>[] }) {
  if (findings.length === 0) return null;
  return (
    <section class="findings" aria-label={t("card.findings")}>
      <h3>{t("card.findings")}</h3>
      <ul>
        {findings.map((finding, number) => {
          const severity = String(finding.severity ?? "");
          return (
            <li key={number}>
              <Badge tone={TONES[severity] ?? "plain"}>
                {severity === "danger" ? t("card.danger") : severity === "warning" ? t("card.warning") : severity}
              </Badge>{" "}
              {String(finding.message ?? finding.kind ?? "")}{" "}
              <span class="quiet">
                {String(finding.path ?? "")}
                {finding.line ? `:${finding.line}` : ""}
              </span>
              {typeof finding.excerpt === "string" && finding.excerpt && <pre>{finding.excerpt}</pre>}
            </li>
          );
        })}
      </ul>
    </section>
  );
}

/** The files of a skill, its text first and rendered, the others folded. */
export function FileList({ files, isOpen = true }: { files: ReviewedFile[]; isOpen?: boolean }) {
  const first = files.find((file) => file.path === "SKILL.md") ?? files.find((file) => file.path.endsWith(".md"));
  const ordered = first ? [first, ...files.filter((file) => file !== first)] : files;
  return (
    <section class="files" aria-label={t("card.files")}>
      {ordered.map((file) => (
        <details key={file.path} open={isOpen && file === first}>
          <summary>
            <code>{file.path}</code> <span class="quiet">{bytes(file.size)}</span>
          </summary>
          {file.text === null ? (
            <p class="quiet">
              {t("card.binary")} <code class="digest">{file.sha256}</code>
            </p>
          ) : (
            <ReviewedText path={file.path} text={file.text} />
          )}
        </details>
      ))}
    </section>
  );
}

function ReviewedText({ path, text }: { path: string; text: string }) {
  const isMarkdown = path.endsWith(".md");
  const [look, setLook] = useState<"read" | "source">(isMarkdown ? "read" : "source");
  const [isFolded, setFolded] = useState(text.length > LONG_CHARS);
  const shown = isFolded ? text.slice(0, LONG_CHARS) : text;
  const [front, body] = look === "read" ? split(shown) : ["", shown];
  return (
    <div class="reviewed">
      {isMarkdown && (
        <Choice
          label={t("card.look")}
          value={look}
          options={[
            { value: "read", label: t("card.look_read") },
            { value: "source", label: t("card.look_source") },
          ]}
          onChange={setLook}
        />
      )}
      {look === "read" ? (
        <div class="reading">
          {front && <pre class="front">{front}</pre>}
          <Markdown text={body} />
        </div>
      ) : (
        <pre tabIndex={0} class="source">
          {body}
        </pre>
      )}
      {isFolded && (
        <Button onClick={() => setFolded(false)}>{t("card.rest", { count: text.length - LONG_CHARS })}</Button>
      )}
    </div>
  );
}

/** Return the front matter and the rest. */
function split(text: string): [string, string] {
  const found = /^---\r?\n([\s\S]*?)\r?\n---\r?\n/.exec(text);
  return found ? [found[1] as string, text.slice(found[0].length)] : ["", text];
}
