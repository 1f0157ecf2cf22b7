// The frame of every page: menu, connection, keyboard.

import { useEffect, useState } from "preact/hooks";
import { ErrorBoundary, LocationProvider, Route, Router, useLocation } from "preact-iso";
import { api, ask, isSignedOut } from "./api/client";
import { connection } from "./api/live";
import { useLoad } from "./api/load";
import { t } from "./i18n";
import { useShortcuts } from "./keys";
import { Button } from "./parts/controls";
import { Dialog } from "./parts/dialog";
import { Icon } from "./parts/icons";
import { Page } from "./parts/page";
import { Empty, Words } from "./parts/states";
import { attempt, Toasts } from "./parts/toast";
import { MENU, ROUTES } from "./routes";
import { chooseTheme, me, signOut, type Theme, theme } from "./state";

export function Shell() {
  return (
    <LocationProvider>
      <ErrorBoundary>
        {isSignedOut.value ? <SignedOut /> : <Frame />}
        <Toasts />
      </ErrorBoundary>
    </LocationProvider>
  );
}

function Frame() {
  const { path } = useLocation();
  const [isMenuOpen, setMenuOpen] = useState(false);
  const [isHelpOpen, setHelpOpen] = useState(false);
  useShortcuts(() => setHelpOpen(true));
  useEffect(() => setMenuOpen(false), [path]);
  useEffect(() => {
    if (!isMenuOpen) return;
    const leave = (event: Event) => {
      const { target } = event;
      if (event instanceof KeyboardEvent) {
        if (event.key !== "Escape") return;
        document.querySelector<HTMLElement>(".topbar button")?.focus();
      } else if (target instanceof Element && !target.closest("a") && target.closest("#menu, .topbar button")) return;
      setMenuOpen(false);
    };
    window.addEventListener("click", leave);
    window.addEventListener("keydown", leave);
    return () => {
      window.removeEventListener("click", leave);
      window.removeEventListener("keydown", leave);
    };
  }, [isMenuOpen]);
  return (
    <>
      <a class="skip" href="#main">
        {t("shell.skip")}
      </a>
      <header class="topbar">
        <button
          type="button"
          class="icon-button"
          aria-expanded={isMenuOpen}
          aria-controls="menu"
          aria-label={t("shell.menu")}
          onClick={() => setMenuOpen(!isMenuOpen)}
        >
          <Icon name="menu" />
        </button>
        <a class="brand" href="/">
          Prowess
        </a>
      </header>
      <Menu isOpen={isMenuOpen} path={path} />
      <main id="main" tabIndex={-1}>
        <ConnectionBar />
        <Router>
          {ROUTES.map(([pattern, page]) => (
            <Route path={pattern} component={page} key={pattern} />
          ))}
          <Route default component={NotFound} />
        </Router>
      </main>
      {isHelpOpen && <Help onClose={() => setHelpOpen(false)} />}
    </>
  );
}

function Menu({ isOpen, path }: { isOpen: boolean; path: string }) {
  const waiting = useLoad(
    (signal) => ask(api.GET("/api/v1/approvals", { params: { query: { state: "pending", limit: 1 } }, signal })),
    [],
    ["approval_required", "approval_resolved"],
  );
  const number = waiting.data?.total ?? 0;
  return (
    <nav id="menu" class={isOpen ? "menu open" : "menu"} aria-label={t("shell.menu")}>
      <a class="brand" href="/">
        Prowess
      </a>
      {MENU.map((group) => (
        <section key={group.label}>
          <h2>{t(group.label)}</h2>
          <ul>
            {group.entries.map((entry) => {
              const isHere = entry.path === "/" ? path === "/" : path.startsWith(entry.path);
              return (
                <li key={entry.path}>
                  <a href={entry.path} aria-current={isHere ? "page" : undefined}>
                    <Icon name={entry.icon} />
                    <span>{t(entry.label)}</span>
                    {entry.path === "/approvals" && number > 0 && (
                      <span class="count">
                        {number}
                        <span class="hidden-text"> {t("shell.waiting")}</span>
                      </span>
                    )}
                  </a>
                </li>
              );
            })}
          </ul>
        </section>
      ))}
      <footer>
        <ThemeChoice />
        <p class="quiet">
          {me.value?.name}
          {me.value?.organization_id ? ` · ${me.value.organization_id}` : ""}
        </p>
        <Button look="plain" onClick={() => attempt(signOut())}>
          <Icon name="leave" />
          {t("shell.sign_out")}
        </Button>
      </footer>
    </nav>
  );
}

function ThemeChoice() {
  const next: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };
  return (
    <Button look="plain" onClick={() => chooseTheme(next[theme.value])}>
      <Icon name={theme.value === "dark" ? "moon" : theme.value === "light" ? "sun" : "contrast"} />
      {t(`shell.theme_${theme.value}`)}
    </Button>
  );
}

function ConnectionBar() {
  return (
    <div role="status" class="connection">
      {connection.value === "lost" && <p>{t("shell.connection_lost")}</p>}
    </div>
  );
}

function SignedOut() {
  return (
    <main class="signed-out">
      <Page title={t("shell.sign_in")}>
        <p>
          <Words text={t("shell.sign_in_how")} />
        </p>
        <p>
          <a class="button primary" href="/sign-in" data-native>
            {t("shell.sign_in_page")}
          </a>
        </p>
      </Page>
    </main>
  );
}

function NotFound() {
  return (
    <Page title={t("shell.not_found")}>
      <Empty title={t("shell.not_found_text")}>
        <a class="button" href="/skills">
          {t("menu.skills")}
        </a>
      </Empty>
    </Page>
  );
}

function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title={t("shell.keys")} onClose={onClose}>
      <dl class="keys">
        {MENU.flatMap((group) => group.entries).map((entry) => (
          <div key={entry.path}>
            <dt>
              <kbd>g</kbd> <kbd>{entry.key}</kbd>
            </dt>
            <dd>{t(entry.label)}</dd>
          </div>
        ))}
        <div>
          <dt>
            <kbd>/</kbd>
          </dt>
          <dd>{t("shell.key_search")}</dd>
        </div>
        <div>
          <dt>
            <kbd>?</kbd>
          </dt>
          <dd>{t("shell.keys")}</dd>
        </div>
      </dl>
    </Dialog>
  );
}
