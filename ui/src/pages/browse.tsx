import { t } from "../i18n";
import { Page } from "../parts/page";

export default function BrowsePage() {
  return <Page title={t("menu.browse")}>{null}</Page>;
}
