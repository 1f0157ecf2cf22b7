// Would the skill be offered for a message, and if not, why?
import { useState } from "preact/hooks";
import { api, ask, type Shapes } from "../../api/client";
import { count, fit } from "../../format";
import { t } from "../../i18n";
import { Badge, type Tone } from "../../parts/badge";
import { Button, Field } from "../../parts/controls";
import { ProblemBox, Words } from "../../parts/states";
import { useAttempt } from "./attempt";
import { pageOf, type Skill } from "./data";

type Explanation = Shapes["ExplanationShape"];
type Step = Shapes["StepShape"];
const DEPTH = 200;
const TONES: Record<Step["decision"], Tone> = { offer: "good", maybe: "warn", no: "bad" };

export function WhyNot({ skill }: { skill: Skill }) {
  const [message, setMessage] = useState("");
  const [found, setFound] = useState<Explanation>();
  const { problem, run } = useAttempt();
  const explain = () =>
    run(async () =>
      setFound(await ask(api.POST("/api/v1/why", { body: { message, session: "", limit: DEPTH, skill: "" } }))),
    );
  const submit = (event: Event) => {
    event.preventDefault();
    if (message.trim()) void explain();
  };
  return (
    <>
      <form class="skill-why" onSubmit={submit}>
        <Field label={t("skill.why_message")} hint={t("skill.why_hint")}>
          {(ids) => (
            <textarea {...ids} rows={2} value={message} onInput={(event) => setMessage(event.currentTarget.value)} />
          )}
        </Field>
        <Button look="primary" disabled={!message.trim()} onClick={explain}>
          {t("skill.why_ask")}
        </Button>
      </form>
      {problem && <ProblemBox problem={problem} />}
      <div role="status">{found && <Answer skill={skill} found={found} />}</div>
    </>
  );
}

function Answer({ skill, found }: { skill: Skill; found: Explanation }) {
  const place = found.steps.findIndex((one) => one.slug === skill.slug);
  const step = found.steps[place];
  if (!step) return <p>{t("skill.why_absent", { count: found.steps.length })}</p>;
  const ahead = found.steps.slice(0, place).slice(0, 5);
  return (
    <section class="card">
      <p class="skill-badges">
        <Badge tone={TONES[step.decision]}>{t(`skill.decision_${step.decision}`)}</Badge>
        <span>{t("skill.why_place", { place: place + 1, count: found.skills })}</span>
        <span class="quiet">{fit(step.score)}</span>
      </p>
      <dl class="facts">
        <dt>{t("skill.why_match")}</dt>
        <dd>{step.why || t("skill.why_nothing")}</dd>
        <dt>{t("skill.why_policy")}</dt>
        <dd>
          {step.choice}
          {step.reason && (
            <span class="quiet">
              {" "}
              <Words text={step.reason} />
            </span>
          )}
        </dd>
        <dt>{t("skill.budget")}</dt>
        <dd>
          {t(step.fits ? "skill.why_fits" : "skill.why_not_fits", {
            need: step.need,
            used: found.budget_used,
            most: found.budget_max,
          })}
        </dd>
        <dt>{t("skill.why_index")}</dt>
        <dd>{step.index}</dd>
      </dl>
      {ahead.length > 0 && (
        <>
          <h2>{t("skill.why_ahead")}</h2>
          <ol>
            {ahead.map((one) => (
              <li key={one.slug}>
                <a href={pageOf(one.slug)}>{one.slug}</a> <span class="quiet">{fit(one.score)}</span>
              </li>
            ))}
          </ol>
          {place > ahead.length && <p class="quiet">{t("skill.why_more", { count: count(place - ahead.length) })}</p>}
        </>
      )}
    </section>
  );
}
