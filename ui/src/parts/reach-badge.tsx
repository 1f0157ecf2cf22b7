// How far the runs of a skill reach.
import { t } from "../i18n";
import { Badge } from "./badge";

export function ReachBadge({ reach }: { reach: "" | "outside" | "machine" }) {
  if (reach === "machine") return <Badge tone="bad">{t("skills.reach_machine")}</Badge>;
  if (reach === "outside") return <Badge tone="warn">{t("skills.reach_outside")}</Badge>;
  return <Badge tone="good">{t("skills.reach_none")}</Badge>;
}
