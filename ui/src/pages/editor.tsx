import { t } from "../i18n";
import { Page } from "../parts/page";

export default function EditorPage() {
  return <Page title={t("menu.skills")}>{null}</Page>;
}
