import type { ComponentChildren } from "preact";

interface Props {
  label: string;
  heads: string[];
  /** The name of a last column with buttons. It is only read aloud. */
  action?: string;
  /** A class of the table. */
  look?: string;
  /** The rows. */
  children: ComponentChildren;
}

/** A table that scrolls by itself where it is wider than the page. */
export function Table({ label, heads, action, look, children }: Props) {
  return (
    <section class="scroll roomy" tabIndex={0} aria-label={label}>
      <table class={look}>
        <thead>
          <tr>
            {heads.map((head) => (
              <th key={head}>{head}</th>
            ))}
            {action && (
              <th>
                <span class="hidden-text">{action}</span>
              </th>
            )}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </section>
  );
}
