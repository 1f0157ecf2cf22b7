import { t } from "../i18n";
import { Page } from "../parts/page";

export default function TracesPage() {
  return <Page title={t("menu.traces")}>{null}</Page>;
}
