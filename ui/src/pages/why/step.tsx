// What happened to one skill: does it fit, is it in the list, may it be used, is there room.

import type { ComponentChildren } from "preact";
import type { Shapes } from "../../api/client";
import { fit } from "../../format";
import { t } from "../../i18n";
import { Badge, type Tone } from "../../parts/badge";
import { Words } from "../../parts/states";

export type StepChoice = "enabled" | "offered" | "possible" | "not offered" | "refused" | "needs approval" | "no room";

export type Step = Shapes["StepShape"] & {
  choice: StepChoice;
  /** The words of the message that were found, by the field of the skill. */
  fields?: Record<string, string[]>;
  signals?: Record<string, number>;
};

const TONES: Record<StepChoice, Tone> = {
  enabled: "good",
  offered: "good",
  possible: "accent",
  "not offered": "plain",
  refused: "bad",
  "needs approval": "warn",
  "no room": "warn",
};

export function Choice({ choice }: { choice: StepChoice }) {
  return <Badge tone={TONES[choice]}>{t(`why.is_${choice.replace(" ", "_") as "offered"}`)}</Badge>;
}

export function StepRow({ step, room, isAsked }: { step: Step; room: number; isAsked: boolean }) {
  return (
    <details class={isAsked ? "why-step asked" : "why-step"}>
      <summary>
        <span class="why-name">{step.slug}</span>
        <Score score={step.score} />
        <Choice choice={step.choice} />
        <span class="why-reason quiet">{step.why || t("why.no_evidence")}</span>
      </summary>
      <Checks step={step} room={room} />
    </details>
  );
}

function Score({ score }: { score: number }) {
  return (
    <span class="why-score">
      <span class="why-bar" aria-hidden="true">
        <span style={{ width: `${Math.round(score * 100)}%` }} />
      </span>
      <span class="why-percent">{fit(score)}</span>
    </span>
  );
}

export function Checks({ step, room }: { step: Step; room: number }) {
  const isListed = step.index !== "omitted";
  return (
    <ol class="why-checks">
      <Check title={t("why.fit")} isOk={step.decision !== "no"}>
        <p>
          {t(`why.decision_${step.decision}`, { score: fit(step.score) })}{" "}
          {step.why && <span class="quiet">{step.why}</span>}
        </p>
        <Evidence fields={step.fields ?? {}} />
        <Signals signals={step.signals ?? {}} />
      </Check>
      <Check title={t("why.index")} isOk={isListed}>
        <p>{t(`why.index_${step.index as "full"}`)}</p>
      </Check>
      <Check title={t("why.rule")} isOk={step.answer === "allow"} isWaiting={step.answer === "ask"}>
        <p>
          <Words text={step.reason} />
        </p>
        <p class="quiet">
          {t("why.by_rule")} <code>{step.rule}</code>
        </p>
      </Check>
      <Check title={t("why.room")} isOk={step.fits}>
        <p>{t(step.fits ? "why.fits" : "why.fits_not", { need: step.need, room })}</p>
      </Check>
    </ol>
  );
}

interface CheckProps {
  title: string;
  isOk: boolean;
  isWaiting?: boolean;
  children: ComponentChildren;
}

function Check({ title, isOk, isWaiting, children }: CheckProps) {
  const state = isOk ? "yes" : isWaiting ? "wait" : "no";
  return (
    <li class={`why-check ${state}`}>
      <span class="why-sign" aria-hidden="true">
        {{ yes: "✓", wait: "?", no: "✕" }[state]}
      </span>
      <div>
        <h3>
          {title} <span class="hidden-text">{t(`why.check_${state}`)}</span>
        </h3>
        {children}
      </div>
    </li>
  );
}

/** The words of the message that the skill has, by where it has them. */
function Evidence({ fields }: { fields: Record<string, string[]> }) {
  const found = Object.entries(fields).filter(([, terms]) => terms.length > 0);
  if (found.length === 0) return null;
  return (
    <dl class="facts why-evidence">
      {found.map(([field, terms]) => (
        <div key={field}>
          <dt>{fieldName(field)}</dt>
          <dd>
            {terms.map((term) => (
              <mark key={term}>{term}</mark>
            ))}
          </dd>
        </div>
      ))}
    </dl>
  );
}

function fieldName(field: string): string {
  switch (field) {
    case "name":
    case "description":
    case "body":
    case "tags":
    case "triggers":
    case "keywords":
      return t(`why.field_${field}`);
    default:
      return field;
  }
}

const SIGNALS = ["cosine", "part", "lexical", "coverage", "declared", "rare", "prior", "compared"] as const;

function Signals({ signals }: { signals: Record<string, number> }) {
  const known = SIGNALS.filter((name) => signals[name] !== undefined);
  if (known.length === 0) return null;
  return (
    <details class="why-signals">
      <summary>{t("why.numbers")}</summary>
      <table>
        <tbody>
          {known.map((name) => (
            <tr key={name}>
              <th scope="row">{t(`why.signal_${name}`)}</th>
              <td class="number">{(signals[name] as number).toFixed(3)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </details>
  );
}
