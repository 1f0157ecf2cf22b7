// The versions of a skill: compare two side by side, and go back to one.
import { useEffect, useState } from "preact/hooks";
import { api, ask, type Shapes } from "../../api/client";
import { useLoad } from "../../api/load";
import { ago, moment } from "../../format";
import { t } from "../../i18n";
import { Badge, type Tone } from "../../parts/badge";
import { Button } from "../../parts/controls";
import { Dialog } from "../../parts/dialog";
import { UnifiedDiff } from "../../parts/diff";
import { Empty, ProblemBox, Shown } from "../../parts/states";
import { say } from "../../parts/toast";
import { may } from "../../state";
import { useAttempt } from "./attempt";
import { addressOf, parameters, type Skill, type Version } from "./data";

const TONES: Record<Version["change"], Tone> = { create: "good", update: "plain", delete: "bad", rollback: "warn" };
const MOST = 200;

interface Props {
  skill: Skill;
  onChange: (skill: Skill) => void;
}

export default function Versions({ skill, onChange }: Props) {
  const address = addressOf(skill);
  const found = useLoad((signal) => loadVersions(address, signal), [address, skill.digest]);
  // The skill as it was when the question was asked: the page follows what others change, the answer must not.
  const [asked, setAsked] = useState<{ skill: Skill; version: Version }>();
  return (
    <>
      <Shown of={found}>
        {(versions) =>
          versions.length ? (
            <Compared
              key={skill.digest}
              skill={skill}
              versions={versions}
              onRestore={(version) => setAsked({ skill, version })}
            />
          ) : (
            <Empty title={t("skill.no_versions")}>
              <p>{t("skill.no_versions_text")}</p>
            </Empty>
          )
        }
      </Shown>
      {asked && (
        <RestoreDialog
          {...asked}
          onClose={() => setAsked(undefined)}
          onDone={(changed) => {
            setAsked(undefined);
            onChange(changed);
          }}
        />
      )}
    </>
  );
}

/** Return the versions, newest first: of a long history the last ones. */
async function loadVersions(address: string, signal: AbortSignal): Promise<Version[]> {
  const found: Version[] = [];
  let cursor: string | undefined;
  do {
    const page = await ask(
      api.GET("/api/v1/skills/{id}/versions", {
        params: { path: { id: address }, query: { limit: MOST, ...(cursor ? { cursor } : {}) } },
        signal,
      }),
    );
    found.push(...page.items);
    cursor = page.next_cursor ?? undefined;
  } while (cursor);
  return found.reverse().slice(0, MOST);
}

interface ComparedProps {
  skill: Skill;
  versions: Version[];
  onRestore: (version: Version) => void;
}

function Compared({ skill, versions, onRestore }: ComparedProps) {
  const newest = versions[0]?.number ?? 1;
  const [before, setBefore] = useState(versions[1]?.number ?? newest);
  const [after, setAfter] = useState(newest);
  useEffect(() => setAfter(newest), [newest]);
  const select = (label: string, value: number, change: (number: number) => void) => (
    <label>
      {label}{" "}
      <select value={value} onChange={(event) => change(Number(event.currentTarget.value))}>
        {versions.map((one) => (
          <option key={one.number} value={one.number}>
            {one.number}
          </option>
        ))}
      </select>
    </label>
  );
  return (
    <>
      <div class="scroll">
        <table class="stacked">
          <thead>
            <tr>
              <th class="number">{t("skill.version_number")}</th>
              <th>{t("skill.version_change")}</th>
              <th>{t("skill.version_when")}</th>
              <th>{t("skill.version_who")}</th>
              <th>{t("skill.version_note")}</th>
              <th>
                <span class="hidden-text">{t("skill.version_actions")}</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {versions.map((one, place) => (
              <tr key={one.number}>
                <td class="number">{one.number}</td>
                <td>
                  <Badge tone={TONES[one.change]}>{t(`skill.change_${one.change}`)}</Badge>
                </td>
                <td title={moment(one.created_at)}>{ago(one.created_at)}</td>
                <td>{one.actor}</td>
                <td>{one.note}</td>
                <td class="skill-version-actions">
                  {place < versions.length - 1 && (
                    <Button
                      look="plain"
                      aria-label={t("skill.show_change_of", { number: one.number })}
                      onClick={() => {
                        setBefore(versions[place + 1]?.number ?? one.number);
                        setAfter(one.number);
                      }}
                    >
                      {t("skill.show_change")}
                    </Button>
                  )}
                  {place > 0 && one.change !== "delete" && may("skills.write") && (
                    <Button
                      look="plain"
                      aria-label={t("skill.restore_of", { number: one.number })}
                      onClick={() => onRestore(one)}
                    >
                      {t("skill.restore")}
                    </Button>
                  )}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {versions.length > 1 && (
        <>
          <div class="toolbar skill-compare">
            {select(t("skill.compare"), before, setBefore)}
            {select(t("skill.compare_with"), after, setAfter)}
          </div>
          <Changes address={addressOf(skill)} before={before} after={after} />
        </>
      )}
    </>
  );
}

function Changes({ address, before, after }: { address: string; before: number; after: number }) {
  const found = useLoad(
    (signal) =>
      ask(
        api.GET("/api/v1/skills/{id}/diff", { params: { ...parameters(address), query: { before, after } }, signal }),
      ),
    [address, before, after],
  );
  return (
    <Shown of={found}>
      {({ changes }) =>
        changes.length ? (
          changes.map((one) => <FileChange key={one.path} change={one} before={before} after={after} />)
        ) : (
          <p class="quiet">{t("diff.same")}</p>
        )
      }
    </Shown>
  );
}

interface ChangeProps {
  change: Shapes["FileChangeShape"];
  before: number;
  after: number;
}

function FileChange({ change, before, after }: ChangeProps) {
  return (
    <section class="skill-change">
      <h2>
        <code>{change.path}</code> <Badge>{t(`skill.file_${change.change}`)}</Badge>
      </h2>
      <UnifiedDiff
        text={change.text}
        labels={[t("skill.version_label", { number: before }), t("skill.version_label", { number: after })]}
      />
    </section>
  );
}

interface RestoreProps {
  skill: Skill;
  version: Version;
  onClose: () => void;
  onDone: (skill: Skill) => void;
}

function RestoreDialog({ skill, version, onClose, onDone }: RestoreProps) {
  const { problem, run } = useAttempt();
  const restore = () =>
    run(async () => {
      const done = await ask(
        api.POST("/api/v1/skills/{id}/rollback", {
          params: parameters(addressOf(skill)),
          body: { version: version.number, note: "" },
          headers: { "If-Match": `"${skill.digest}"` },
        }),
      );
      say(t("skill.restored", { number: version.number }));
      onDone(done);
    });
  return (
    <Dialog
      title={t("skill.restore_title", { number: version.number })}
      onClose={onClose}
      answer={{ text: t("skill.restore"), look: "primary", onClick: restore }}
    >
      {problem && <ProblemBox problem={problem} />}
      <p>{t("skill.restore_text", { number: version.number, when: moment(version.created_at) })}</p>
    </Dialog>
  );
}
