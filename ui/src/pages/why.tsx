import { t } from "../i18n";
import { Page } from "../parts/page";

export default function WhyPage() {
  return <Page title={t("menu.why")}>{null}</Page>;
}
