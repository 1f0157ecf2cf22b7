import { t } from "../i18n";
import { Page } from "../parts/page";

export default function SkillsPage() {
  return <Page title={t("menu.skills")}>{null}</Page>;
}
