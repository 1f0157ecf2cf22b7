// Why a skill is or is not offered for a message: every step of the decision, in words.

import { useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { api, ask, type Shapes } from "../api/client";
import { useLoad } from "../api/load";
import { count } from "../format";
import { t } from "../i18n";
import { Button, Field, Tabs } from "../parts/controls";
import { Page } from "../parts/page";
import { Empty, Shown } from "../parts/states";
import { Decisions } from "./why/decisions";
import { Checks, Choice, type Step, StepRow } from "./why/step";
import "../style/why.css";

type Explanation = Shapes["ExplanationShape"];

const LIMIT = 200;
const FIRST = 15;

export default function WhyPage() {
  const { query, route } = useLocation();
  const [panel, setPanel] = useState<"message" | "decisions">("message");
  const [message, setMessage] = useState(query.message ?? "");
  const [session, setSession] = useState(query.session ?? "");
  const asked = query.message ?? "";
  const explain = (event?: Event) => {
    event?.preventDefault();
    const given = { message: message.trim(), session, skill: query.skill ?? "" };
    const kept = Object.entries(given).filter(([, value]) => value);
    route(`/why?${new URLSearchParams(kept)}`);
  };
  return (
    <Page title={t("menu.why")} lead={t("why.lead")}>
      <Tabs
        label={t("menu.why")}
        value={panel}
        options={[
          { value: "message", label: t("why.a_message") },
          { value: "decisions", label: t("why.decisions") },
        ]}
        onChange={setPanel}
      >
        {panel === "decisions" ? (
          <Decisions />
        ) : (
          <>
            <form onSubmit={explain} class="why-form">
              <Field label={t("why.message")}>
                {(ids) => (
                  <textarea
                    {...ids}
                    rows={2}
                    value={message}
                    placeholder={t("why.example")}
                    onInput={(event) => setMessage(event.currentTarget.value)}
                    onKeyDown={(event) => {
                      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) explain(event);
                    }}
                  />
                )}
              </Field>
              <Sessions value={session} onChange={setSession} />
              <Button look="primary" type="submit" disabled={!message.trim()}>
                {t("why.explain")}
              </Button>
            </form>
            {asked ? <Answer message={asked} session={query.session ?? ""} skill={query.skill ?? ""} /> : <How />}
          </>
        )}
      </Tabs>
    </Page>
  );
}

/** The conversation whose enabled skills and budget count; none by default. */
function Sessions({ value, onChange }: { value: string; onChange: (id: string) => void }) {
  const sessions = useLoad(
    (signal) => ask(api.GET("/api/v1/sessions", { params: { query: { limit: 50 } }, signal })),
    [],
  );
  const items = sessions.data?.items ?? [];
  if (items.length === 0) return null;
  return (
    <Field label={t("why.session")}>
      {(ids) => (
        <select {...ids} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
          <option value="">{t("why.new_session")}</option>
          {items.map((one) => (
            <option key={one.id} value={one.id}>
              {one.conversation || one.id.slice(0, 8)} · {count(one.budget_used_chars)} / {count(one.budget_max_chars)}
            </option>
          ))}
        </select>
      )}
    </Field>
  );
}

function How() {
  return (
    <Empty title={t("why.how")}>
      <ol class="why-how">
        <li>{t("why.how_fit")}</li>
        <li>{t("why.how_index")}</li>
        <li>{t("why.how_rule")}</li>
        <li>{t("why.how_room")}</li>
      </ol>
    </Empty>
  );
}

function Answer({ message, session, skill }: { message: string; session: string; skill: string }) {
  const found = useLoad(
    (signal) => ask(api.POST("/api/v1/why", { body: { message, session, limit: LIMIT, skill: "" }, signal })),
    [message, session],
    ["skills_state_changed", "catalog_changed", "source_synced", "approval_resolved"],
  );
  return (
    <div aria-live="polite">
      <Shown of={found}>{(explanation) => <Explained explanation={explanation} skill={skill} />}</Shown>
    </div>
  );
}

function Explained({ explanation, skill }: { explanation: Explanation; skill: string }) {
  const [isWhole, setWhole] = useState(false);
  const steps = explanation.steps as Step[];
  const slug = skill.replace(/^[^:]*:/, "");
  const asked = steps.find((step) => step.slug === slug);
  const isGood = (step: Step) => step.choice === "enabled" || step.choice === "offered";
  const shown = isWhole ? steps : steps.filter((step, place) => place < FIRST || isGood(step));
  const room = explanation.budget_max - explanation.budget_used;
  return (
    <>
      {slug && (
        <section class="card why-asked" aria-label={t("why.about", { slug })}>
          <h2>{t("why.about", { slug })}</h2>
          {asked ? (
            <>
              <p class="why-verdict">
                <Choice choice={asked.choice} /> {t(`why.says_${word(asked.choice)}`, { slug })}
              </p>
              <Checks step={asked} room={room} />
            </>
          ) : (
            <p>{t("why.not_ranked", { slug, count: explanation.skills })}</p>
          )}
        </section>
      )}
      <h2>
        {steps.some(isGood) ? t("why.offered_count", { count: steps.filter(isGood).length }) : t("why.offered_none")}
      </h2>
      <p class="quiet">
        {t("why.considered", { count: explanation.skills })}{" "}
        {explanation.index_omitted > 0 && t("why.omitted", { count: explanation.index_omitted })}
      </p>
      <div class="why-budget">
        <label for="why-budget">
          {t("why.budget", { used: explanation.budget_used, max: explanation.budget_max })}
        </label>
        <progress id="why-budget" value={explanation.budget_used} max={Math.max(1, explanation.budget_max)} />
      </div>
      {steps.length === 0 ? (
        <Empty title={t("why.nothing")}>
          <p>{t("why.nothing_hint")}</p>
        </Empty>
      ) : (
        <ul class="why-steps" aria-label={t("why.steps")}>
          {shown.map((step) => (
            <li key={step.slug}>
              <StepRow step={step} room={room} isAsked={step.slug === slug} />
            </li>
          ))}
        </ul>
      )}
      {shown.length < steps.length && (
        <Button look="plain" onClick={() => setWhole(true)}>
          {t("why.all", { count: steps.length })}
        </Button>
      )}
    </>
  );
}

function word(choice: Step["choice"]) {
  return choice.replace(" ", "_") as "offered";
}
