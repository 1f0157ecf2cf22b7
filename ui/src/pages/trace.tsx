import { t } from "../i18n";
import { Page } from "../parts/page";

export default function TracePage() {
  return <Page title={t("menu.traces")}>{null}</Page>;
}
