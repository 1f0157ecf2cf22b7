import { t } from "../i18n";
import { Page } from "../parts/page";

export default function ApprovalsPage() {
  return <Page title={t("menu.approvals")}>{null}</Page>;
}
