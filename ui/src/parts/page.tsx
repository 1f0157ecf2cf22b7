import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef } from "preact/hooks";
import { t } from "../i18n";

interface Props {
  title: string;
  /** One sentence below the title. */
  lead?: ComponentChildren;
  /** Buttons beside the title. */
  actions?: ComponentChildren;
  /** Where it lies: the page above it. */
  back?: { href: string; label: string };
  /** True for pages that use the whole width. */
  isWide?: boolean;
  children: ComponentChildren;
}

/** A page with its title. Opening one moves the focus to the title, so that screen readers say where they are. */
export function Page({ title, lead, actions, back, isWide, children }: Props) {
  const heading = useRef<HTMLHeadingElement>(null);
  useLayoutEffect(() => {
    document.title = `${title} · Prowess`;
  }, [title]);
  useLayoutEffect(() => {
    if (document.activeElement?.matches("body, #main, nav *")) heading.current?.focus();
  }, []);
  return (
    <div class={isWide ? "page wide" : "page"}>
      {back && (
        <nav class="back" aria-label={t("shell.back")}>
          <a href={back.href}>← {back.label}</a>
        </nav>
      )}
      <header class="page-header">
        <div>
          <h1 tabIndex={-1} ref={heading}>
            {title}
          </h1>
          {lead && <p class="lead">{lead}</p>}
        </div>
        {actions && <div class="actions">{actions}</div>}
      </header>
      {children}
    </div>
  );
}
