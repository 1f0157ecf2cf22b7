import { t } from "../i18n";
import { Page } from "../parts/page";

export default function SourcesPage() {
  return <Page title={t("menu.sources")}>{null}</Page>;
}
