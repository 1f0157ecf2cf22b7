import { t } from "../i18n";
import { Page } from "../parts/page";

export default function OverviewPage() {
  return <Page title={t("menu.overview")}>{null}</Page>;
}
