// Delete a source, and say what happens to its skills.

import { useState } from "preact/hooks";
import { api, ask, type Problem, type Shapes } from "../../api/client";
import { useLoad } from "../../api/load";
import { t } from "../../i18n";
import { Dialog } from "../../parts/dialog";
import { asProblem, ProblemBox } from "../../parts/states";
import { say } from "../../parts/toast";

interface Props {
  source: Shapes["SourceShape"];
  onClose: () => void;
  onDeleted: () => void;
}

export function DeleteSource({ source, onClose, onDeleted }: Props) {
  const [isWithSkills, setWithSkills] = useState(false);
  const [problem, setProblem] = useState<Problem | undefined>(undefined);
  const skills = useLoad(
    (signal) => ask(api.GET("/api/v1/skills", { params: { query: { source_id: source.id, limit: 1 } }, signal })),
    [source.id],
  );
  const remove = async () => {
    setProblem(undefined);
    try {
      await ask(
        api.DELETE("/api/v1/skills/sources/{id}", {
          params: { path: { id: source.id }, query: { remove_skills: isWithSkills } },
        }),
      );
      say(t("sources.deleted", { name: source.name }));
      onDeleted();
    } catch (error) {
      setProblem(asProblem(error));
    }
  };
  const count = skills.data?.total ?? 0;
  return (
    <Dialog
      title={t("sources.delete_title", { name: source.name })}
      onClose={onClose}
      answer={{ text: t("sources.delete"), look: "danger", onClick: remove }}
    >
      {problem && <ProblemBox problem={problem} />}
      {count > 0 ? (
        <>
          <p>{t("sources.has_skills", { count })}</p>
          <label class="browse-read">
            <input
              type="checkbox"
              checked={isWithSkills}
              onChange={(event) => setWithSkills(event.currentTarget.checked)}
            />{" "}
            {t("sources.with_skills")}
          </label>
          <p class="quiet">{t("sources.edited_stay")}</p>
        </>
      ) : (
        <p>{t("sources.no_skills")}</p>
      )}
    </Dialog>
  );
}
