import { t } from "../i18n";
import { Page } from "../parts/page";

export default function SettingsPage() {
  return <Page title={t("menu.settings")}>{null}</Page>;
}
