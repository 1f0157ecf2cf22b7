// A ranking: names with a bar and a value each. It is a table, so it reads well without seeing the bars.
import type { ComponentChildren } from "preact";

export interface BarRow {
  name: string;
  label: ComponentChildren;
  value: number;
  shown: string;
}

export function Bars({ label, rows, isBad }: { label: string; rows: BarRow[]; isBad?: boolean }) {
  const most = Math.max(...rows.map((row) => row.value), Number.MIN_VALUE);
  return (
    <table class="bars">
      <caption class="hidden-text">{label}</caption>
      <tbody>
        {rows.map((row) => (
          <tr key={row.name}>
            <th scope="row" title={row.name}>
              {row.label}
            </th>
            <td>
              <div class={isBad ? "bar bad" : "bar"} style={{ width: `${(100 * row.value) / most}%` }} />
            </td>
            <td class="number">{row.shown}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
