import { t } from "../i18n";
import { Page } from "../parts/page";

export default function EvalPage() {
  return <Page title={t("menu.evals")}>{null}</Page>;
}
