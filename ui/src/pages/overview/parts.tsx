// The frame of an area of the overview.
import type { ComponentChildren } from "preact";

interface Props {
  id: string;
  title: string;
  /** The most important number of the area. */
  figure?: ComponentChildren;
  link?: { href: string; label: string };
  children: ComponentChildren;
}

export function Area({ id, title, figure, link, children }: Props) {
  return (
    <section class="card overview-area" aria-labelledby={`overview-${id}`}>
      <header>
        <h2 id={`overview-${id}`}>{title}</h2>
        {link && <a href={link.href}>{link.label} →</a>}
      </header>
      {figure !== undefined && <p class="overview-figure">{figure}</p>}
      {children}
    </section>
  );
}
