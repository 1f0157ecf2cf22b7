import { render } from "preact";
import { startLive } from "./api/live";
import { loadTexts } from "./i18n";
import { Shell } from "./shell";
import { loadMe } from "./state";
import "./style/base.css";
import "./style/parts.css";
import "./style/shell.css";

await Promise.all([loadTexts(), loadMe()]);
startLive();
const root = document.getElementById("app");
if (root) render(<Shell />, root);
