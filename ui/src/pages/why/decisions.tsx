// The last decisions of conversations: what the agent did with a message, and which skills were near.

import { api, ask } from "../../api/client";
import { useLoad } from "../../api/load";
import { ago, fit, moment } from "../../format";
import { t } from "../../i18n";
import { Badge, type Tone } from "../../parts/badge";
import { Empty, Shown, Words } from "../../parts/states";

interface Decision {
  action?: string;
  skill?: string | null;
  reason?: string;
  recommended?: { skill: string; score: number; fit: string }[];
  /** What was looked up before the model was asked. */
  research?: { tool: string; reason: string }[];
}

const SHOWN = 30;
const PAGE = 1_000;
const TONES: Record<string, Tone> = { activate: "good", research: "accent", clarify: "warn" };

/** Load the newest decisions. The list of events begins with the oldest, so the end of it is asked for. */
async function newest(signal: AbortSignal) {
  const read = (after: number, limit: number) =>
    ask(api.GET("/api/v1/events/list", { params: { query: { names: "decision_made", after, limit } }, signal }));
  const ends = await read(0, 1);
  let items = [];
  // Other events lie between decisions: look further back until there are enough.
  for (let back = 500; ; back *= 10) {
    const after = Math.max(0, ends.last - back);
    const page = await read(after, PAGE);
    items = page.items;
    for (let next = page; next.items.length === PAGE; ) {
      next = await read(next.next_after, PAGE);
      items = [...items, ...next.items];
    }
    if (items.length >= SHOWN || after === 0) break;
  }
  return items.slice(-SHOWN).reverse();
}

export function Decisions() {
  const found = useLoad(newest, [], ["decision_made"]);
  return (
    <Shown of={found}>
      {(items) =>
        items.length === 0 ? (
          <Empty title={t("why.no_decisions")}>
            <p>{t("why.no_decisions_hint")}</p>
            <a class="button" href="/chat">
              {t("menu.chat")}
            </a>
          </Empty>
        ) : (
          <ul class="why-decisions" aria-label={t("why.decisions")}>
            {items.map((item) => {
              const decision = item.data as Decision;
              return (
                <li key={item.number}>
                  <p class="why-line">
                    <Badge tone={TONES[decision.action ?? ""] ?? "plain"}>{actionName(decision.action ?? "")}</Badge>
                    {decision.skill && <strong>{decision.skill}</strong>}
                    <span class="quiet" title={moment(item.at)}>
                      {ago(item.at)}
                    </span>
                    {item.session && <a href={`/chat/${encodeURIComponent(item.session)}`}>{t("why.conversation")}</a>}
                  </p>
                  <p>
                    <Words text={decision.reason ?? ""} />
                  </p>
                  {decision.research?.map((one) => (
                    <p key={one.tool} class="quiet">
                      {t("why.looked_up", { tool: one.tool })} {one.reason}
                    </p>
                  ))}
                  {decision.recommended && decision.recommended.length > 0 && (
                    <p class="quiet why-near">
                      {t("why.near")}{" "}
                      {decision.recommended.map((one) => (
                        <a key={one.skill} href={`/skills/${encodeURIComponent(one.skill)}`}>
                          {one.skill} {fit(one.score)}
                        </a>
                      ))}
                    </p>
                  )}
                </li>
              );
            })}
          </ul>
        )
      }
    </Shown>
  );
}

function actionName(action: string): string {
  switch (action) {
    case "answer":
    case "clarify":
    case "activate":
    case "research":
      return t(`why.action_${action}`);
    default:
      return action;
  }
}
