// The pages, their addresses and their places in the menu. A page is loaded when it is first opened.
import type { ComponentType } from "preact";
import { lazy } from "preact-iso";
import type { MessageKey } from "./i18n";
import type { IconName } from "./parts/icons";

export interface Entry {
  path: string;
  label: MessageKey;
  icon: IconName;
  /** The key that opens it after `g`. */
  key: string;
}

export const MENU: { label: MessageKey; entries: Entry[] }[] = [
  {
    label: "menu.work",
    entries: [
      { path: "/", label: "menu.overview", icon: "home", key: "h" },
      { path: "/skills", label: "menu.skills", icon: "book", key: "s" },
      { path: "/chat", label: "menu.chat", icon: "chat", key: "c" },
      { path: "/approvals", label: "menu.approvals", icon: "check", key: "a" },
    ],
  },
  {
    label: "menu.find",
    entries: [
      { path: "/browse", label: "menu.browse", icon: "search", key: "b" },
      { path: "/sources", label: "menu.sources", icon: "sync", key: "o" },
    ],
  },
  {
    label: "menu.understand",
    entries: [
      { path: "/why", label: "menu.why", icon: "question", key: "w" },
      { path: "/traces", label: "menu.traces", icon: "chart", key: "t" },
      { path: "/jobs", label: "menu.jobs", icon: "clock", key: "j" },
      { path: "/evals", label: "menu.evals", icon: "scale", key: "e" },
    ],
  },
  {
    label: "menu.manage",
    entries: [
      { path: "/settings", label: "menu.settings", icon: "gear", key: "," },
      { path: "/people", label: "menu.people", icon: "people", key: "p" },
      { path: "/audit", label: "menu.audit", icon: "shield", key: "u" },
    ],
  },
];

export const ROUTES: [path: string, page: ComponentType][] = [
  ["/", lazy(() => import("./pages/overview"))],
  ["/skills", lazy(() => import("./pages/skills"))],
  ["/skills/new", lazy(() => import("./pages/editor"))],
  ["/skills/:slug", lazy(() => import("./pages/skill"))],
  ["/skills/:slug/edit", lazy(() => import("./pages/editor"))],
  ["/chat", lazy(() => import("./pages/chat"))],
  ["/chat/:id", lazy(() => import("./pages/chat"))],
  ["/approvals", lazy(() => import("./pages/approvals"))],
  ["/browse", lazy(() => import("./pages/browse"))],
  ["/sources", lazy(() => import("./pages/sources"))],
  ["/why", lazy(() => import("./pages/why"))],
  ["/traces", lazy(() => import("./pages/traces"))],
  ["/traces/:id", lazy(() => import("./pages/trace"))],
  ["/jobs", lazy(() => import("./pages/jobs"))],
  ["/jobs/:id", lazy(() => import("./pages/job"))],
  ["/evals", lazy(() => import("./pages/evals"))],
  ["/evals/:id", lazy(() => import("./pages/eval"))],
  ["/optimizations/:id", lazy(() => import("./pages/optimization"))],
  ["/settings", lazy(() => import("./pages/settings"))],
  ["/people", lazy(() => import("./pages/people"))],
  ["/audit", lazy(() => import("./pages/audit"))],
];
