import { t } from "../i18n";
import { Page } from "../parts/page";

export default function ChatPage() {
  return <Page title={t("menu.chat")}>{null}</Page>;
}
