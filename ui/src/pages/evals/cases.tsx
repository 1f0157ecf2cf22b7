// The cases of a run: passed or not on each side, with outputs and reasons folded.

import { useState } from "preact/hooks";
import { duration } from "../../format";
import { t } from "../../i18n";
import { Button } from "../../parts/controls";
import { armName, type CaseResult, type Run } from "./run";

const FIRST = 100;
const LONGEST = 4_000;

export function Cases({ run, isFailedOnly }: { run: Run; isFailedOnly: boolean }) {
  const [limit, setLimit] = useState(FIRST);
  const cases = new Map<string, CaseResult[]>();
  for (const result of run.results) cases.set(result.digest, [...(cases.get(result.digest) ?? []), result]);
  const failed = (results: CaseResult[]) =>
    results.some((one) => run.arms[one.arm]?.kind === "skill" && one.passed !== true);
  const found = [...cases.values()].filter((results) => !isFailedOnly || failed(results));
  if (found.length === 0) return <p class="quiet">{isFailedOnly ? t("evals.none_failed") : t("evals.no_cases")}</p>;
  return (
    <>
      <ul class="evals-cases" aria-label={t("evals.cases")}>
        {found.slice(0, limit).map((results) => (
          <li key={results[0]?.digest}>
            <Case run={run} results={results} />
          </li>
        ))}
      </ul>
      {found.length > limit && (
        <Button look="plain" onClick={() => setLimit(found.length)}>
          {t("evals.all_cases", { count: found.length })}
        </Button>
      )}
    </>
  );
}

function Case({ run, results }: { run: Run; results: CaseResult[] }) {
  const first = results[0] as CaseResult;
  return (
    <details>
      <summary>
        <span class="evals-name">{first.title || first.case}</span>
        {run.arms.map((arm, place) => (
          <span class="evals-side" key={arm.label}>
            <span class="quiet">{armName(run, place)}</span>{" "}
            {results
              .filter((one) => one.arm === place)
              .map((one) => (
                <Sign key={one.repeat} passed={one.passed} />
              ))}
          </span>
        ))}
      </summary>
      <div class="evals-outputs">
        {results.map((one) => (
          <Output key={`${one.arm}-${one.repeat}`} run={run} result={one} />
        ))}
      </div>
    </details>
  );
}

export function Sign({ passed }: { passed: boolean | null | undefined }) {
  const words = passed ? t("evals.pass") : passed === false ? t("evals.fail") : t("evals.error");
  return (
    <span class={`evals-sign ${passed ? "good" : passed === false ? "bad" : "warn"}`} title={words}>
      <span aria-hidden="true">{passed ? "✓" : passed === false ? "✕" : "!"}</span>
      <span class="hidden-text">{words}</span>
    </span>
  );
}

function Output({ run, result }: { run: Run; result: CaseResult }) {
  const [isWhole, setWhole] = useState(false);
  const text = isWhole ? result.output : result.output.slice(0, LONGEST);
  return (
    <section>
      <h3>
        {armName(run, result.arm)} {result.repeat > 1 && <span class="quiet">#{result.repeat}</span>}{" "}
        <Sign passed={result.passed} />
      </h3>
      {result.error && <p class="evals-bad">{result.error}</p>}
      {text && <pre tabIndex={0}>{text}</pre>}
      {text.length < result.output.length && (
        <Button look="plain" onClick={() => setWhole(true)}>
          {t("evals.whole")}
        </Button>
      )}
      <ul class="evals-verdicts">
        {result.verdicts.map((verdict, number) => (
          <li key={number}>
            <Sign passed={verdict.passed} /> {verdict.description}{" "}
            <span class="quiet">{verdict.evidence || verdict.error}</span>
          </li>
        ))}
      </ul>
      <p class="quiet evals-foot">
        {duration(result.seconds * 1000)}
        {result.cached && ` · ${t("evals.cached")}`}
        {result.traces.slice(0, 1).map((trace) => (
          <a key={trace} href={`/traces/${encodeURIComponent(trace)}`}>
            {" "}
            {t("evals.trace")}
          </a>
        ))}
      </p>
    </section>
  );
}
