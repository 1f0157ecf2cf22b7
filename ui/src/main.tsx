import { render } from "preact";
import { markEvents, startLive } from "./api/live";
import { keepFocus } from "./focus";
import { loadTexts } from "./i18n";
import { Shell } from "./shell";
import { loadMe } from "./state";
import "./style/base.css";
import "./style/parts.css";
import "./style/shell.css";

// After an update of the server, the parts that this page would load are gone. Load the new page, once.
window.addEventListener("vite:preloadError", (event) => {
  const last = Number(sessionStorage.getItem("reloaded"));
  if (Date.now() - last < 60_000) return;
  sessionStorage.setItem("reloaded", String(Date.now()));
  event.preventDefault();
  location.reload();
});

// Before anything is loaded that an event may change.
await Promise.all([loadTexts(), loadMe(), markEvents()]);
startLive();
keepFocus();
const root = document.getElementById("app");
if (root) render(<Shell />, root);
