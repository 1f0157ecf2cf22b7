import { t } from "../i18n";
import { Page } from "../parts/page";

export default function AuditPage() {
  return <Page title={t("menu.audit")}>{null}</Page>;
}
