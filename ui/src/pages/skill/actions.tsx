// What can be done with a skill: run, edit, export, copy, switch off, delete.
import { useState } from "preact/hooks";
import { lazy, useLocation } from "preact-iso";
import { api, ask, type Shapes } from "../../api/client";
import { t } from "../../i18n";
import { Button, Field } from "../../parts/controls";
import { Dialog } from "../../parts/dialog";
import { Icon } from "../../parts/icons";
import { scopeLabel } from "../../parts/skill-badges";
import { ProblemBox, Words } from "../../parts/states";
import { say } from "../../parts/toast";
import { may, me } from "../../state";
import { useAttempt } from "./attempt";
import { addressOf, pageOf, parameters, type Skill, switchSkill } from "./data";

const RunDialog = lazy(() => import("../../parts/run-dialog").then((found) => found.RunDialog));

interface Props {
  skill: Skill;
  isRunnable: boolean;
  onChange: (skill: Skill) => void;
}

type Open = "run" | "fork" | "delete" | undefined;

export function Actions({ skill, isRunnable, onChange }: Props) {
  const [open, setOpen] = useState<Open>();
  const close = () => setOpen(undefined);
  const address = addressOf(skill);
  const isWriter = may("skills.write");
  const isFrozen = skill.scope === "system";
  return (
    <>
      {isRunnable && may("skills.run") && (
        <Button look="primary" onClick={() => setOpen("run")}>
          <Icon name="play" />
          {t("run.run")}
        </Button>
      )}
      {isWriter && !isFrozen && (
        <a class={isRunnable ? "button" : "button primary"} href={`${pageOf(skill.slug)}/edit`}>
          <Icon name="edit" />
          {t("skill.edit")}
        </a>
      )}
      {isWriter && (
        <Button look={isFrozen && !isRunnable ? "primary" : "normal"} onClick={() => setOpen("fork")}>
          <Icon name="copy" />
          {t("skill.fork")}
        </Button>
      )}
      <a class="button" href={`/api/v1/skills/${encodeURIComponent(address)}/export?form=zip`} download target="_self">
        {t("skill.export")}
      </a>
      {may("admin") && (
        <Button
          onClick={async () => {
            const changed = await switchSkill(skill, !skill.enabled);
            if (changed) onChange(changed);
          }}
        >
          {skill.enabled ? t("skill.switch_off") : t("skill.switch_on")}
        </Button>
      )}
      {isWriter && !isFrozen && (
        <Button look="danger" onClick={() => setOpen("delete")}>
          <Icon name="trash" />
          {t("skill.delete")}
        </Button>
      )}
      {open === "run" && <RunDialog skill={address} title={skill.name} onClose={close} />}
      {open === "fork" && <ForkDialog skill={skill} onClose={close} />}
      {open === "delete" && <DeleteDialog skill={skill} onClose={close} />}
    </>
  );
}

type Target = NonNullable<Shapes["ForkBody"]["scope"]>;
const NEARER: Record<string, Target[]> = {
  system: ["workspace", "user", "org"],
  account: ["workspace", "user", "org"],
  org: ["workspace", "user"],
  user: ["workspace"],
};

function ForkDialog({ skill, onClose }: { skill: Skill; onClose: () => void }) {
  const { route } = useLocation();
  // The workspace of a server is a folder of its operator.
  const targets = (NEARER[skill.scope] ?? []).filter((one) => one !== "workspace" || !me.value?.organization_id);
  const [scope, setScope] = useState<Target>(targets.includes("user") ? "user" : (targets[0] ?? "user"));
  const { problem, run } = useAttempt();
  const fork = () =>
    run(async () => {
      const made = await ask(
        api.POST("/api/v1/skills/{id}/fork", { params: parameters(addressOf(skill)), body: { scope } }),
      );
      say(t("skill.forked", { name: made.name, scope: scopeLabel(made.scope) }));
      onClose();
      route(pageOf(addressOf(made)));
    });
  return (
    <Dialog
      title={t("skill.fork_title", { name: skill.name })}
      onClose={onClose}
      answer={{ text: t("skill.fork"), look: "primary", onClick: fork, disabled: !targets.length }}
    >
      {problem && <ProblemBox problem={problem} />}
      <p>{targets.length ? t("skill.fork_text") : t("skill.fork_nowhere")}</p>
      {targets.length > 0 && (
        <Field label={t("skill.fork_scope")}>
          {(ids) => (
            <select {...ids} value={scope} onChange={(event) => setScope(event.currentTarget.value as Target)}>
              {targets.map((one) => (
                <option key={one} value={one}>
                  {scopeLabel(one)}
                </option>
              ))}
            </select>
          )}
        </Field>
      )}
    </Dialog>
  );
}

function DeleteDialog({ skill, onClose }: { skill: Skill; onClose: () => void }) {
  const { route } = useLocation();
  const { problem, run } = useAttempt();
  const remove = () =>
    run(async () => {
      await ask(
        api.DELETE("/api/v1/skills/{id}", {
          params: parameters(addressOf(skill)),
          headers: { "If-Match": `"${skill.digest}"` },
        }),
      );
      say(t("skill.deleted", { name: skill.name }));
      route("/skills");
    });
  return (
    <Dialog
      title={t("skill.delete_title", { name: skill.name })}
      onClose={onClose}
      answer={{ text: t("skill.delete"), look: "danger", onClick: remove }}
    >
      {problem && <ProblemBox problem={problem} />}
      <p>
        <Words text={t("skill.delete_text")} />
      </p>
      {skill.hides.length > 0 && <p>{t("skill.delete_hides", { scope: scopeLabel(skill.hides[0]?.scope ?? "") })}</p>}
    </Dialog>
  );
}
