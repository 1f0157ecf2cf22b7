import { t } from "../i18n";
import { Page } from "../parts/page";

export default function PeoplePage() {
  return <Page title={t("menu.people")}>{null}</Page>;
}
