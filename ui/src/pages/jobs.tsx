import { t } from "../i18n";
import { Page } from "../parts/page";

export default function JobsPage() {
  return <Page title={t("menu.jobs")}>{null}</Page>;
}
