import type { ComponentChildren } from "preact";

interface Props {
  label: string;
  heads: string[];
  /** The name of a last column with buttons. It is only read aloud. */
  action?: string;
  /** The rows. On a phone each is a block, where the texts in `data-label` of cells say what they are. */
  children: ComponentChildren;
}

/** A table that scrolls by itself where it is wider than the page, and has no columns on a phone. */
export function Table({ label, heads, action, children }: Props) {
  return (
    <section class="scroll" tabIndex={0} aria-label={label}>
      <table class="stacked">
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
