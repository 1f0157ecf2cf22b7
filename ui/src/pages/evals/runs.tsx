// The list of evaluations, newest first.

import { useState } from "preact/hooks";
import { useLocation } from "preact-iso";
import { api, ask } from "../../api/client";
import { usePages } from "../../api/load";
import { ago, cost, moment } from "../../format";
import { t } from "../../i18n";
import { Button } from "../../parts/controls";
import { Empty, More, Shown, Words } from "../../parts/states";
import { asRun, ownArm, type Run } from "./run";
import { Difference, range, Verdict } from "./verdict";

export function Runs() {
  const { route } = useLocation();
  const [chosen, setChosen] = useState<string[]>([]);
  const runs = usePages(
    (query, signal) => ask(api.GET("/api/v1/evals", { params: { query }, signal })),
    [],
    ["job_changed"],
  );
  const choose = (id: string, isOn: boolean) =>
    setChosen((last) => (isOn ? [...last, id].slice(-2) : last.filter((one) => one !== id)));
  return (
    <Shown of={runs}>
      {(page) =>
        page.items.length === 0 ? (
          <Empty title={t("evals.no_runs")}>
            <p>
              <Words text={t("evals.no_runs_hint")} />
            </p>
          </Empty>
        ) : (
          <>
            <div class="scroll">
              <table class="evals-table stacked">
                <thead>
                  <tr>
                    <th>
                      <span class="hidden-text">{t("evals.compare")}</span>
                    </th>
                    <th>{t("evals.skill")}</th>
                    <th>{t("evals.verdict")}</th>
                    <th class="number">{t("evals.pass_rate")}</th>
                    <th>{t("evals.with_or_without")}</th>
                    <th class="number">{t("evals.cost")}</th>
                    <th>{t("evals.when")}</th>
                  </tr>
                </thead>
                <tbody>
                  {page.items.map((item) => (
                    <Row
                      key={item.id}
                      run={asRun(item)}
                      isChosen={chosen.includes(item.id)}
                      onChoose={(isOn) => choose(item.id, isOn)}
                    />
                  ))}
                </tbody>
              </table>
            </div>
            <div class="toolbar evals-below">
              <Button
                disabled={chosen.length < 2}
                onClick={() => {
                  const order = page.items.map((item) => item.id).filter((id) => chosen.includes(id));
                  route(`/evals/${order[0]}?with=${order[1]}`);
                }}
              >
                {t("evals.compare_two")}
              </Button>
              <More of={runs} />
            </div>
          </>
        )
      }
    </Shown>
  );
}

function Row({ run, isChosen, onChoose }: { run: Run; isChosen: boolean; onChoose: (isOn: boolean) => void }) {
  const comparison = run.summary?.comparisons[0];
  return (
    <tr>
      <td>
        <input
          type="checkbox"
          aria-label={t("evals.choose", { skill: run.skill, when: ago(run.created_at) })}
          checked={isChosen}
          onChange={(event) => onChoose(event.currentTarget.checked)}
        />
      </td>
      <th scope="row">
        <a href={`/evals/${run.id}`}>{run.skill}</a>
      </th>
      <td>
        <Verdict run={run} />
      </td>
      <td class="number">{range(run.summary?.arms[ownArm(run)]?.pass_rate)}</td>
      <td>{comparison ? <Difference verdict={comparison.verdict} /> : <span class="quiet">–</span>}</td>
      <td class="number" data-label={t("evals.cost")}>
        {run.cost_usd === null ? "–" : cost(run.cost_usd)}
      </td>
      <td>
        <span title={moment(run.created_at)}>{ago(run.created_at)}</span>
      </td>
    </tr>
  );
}
