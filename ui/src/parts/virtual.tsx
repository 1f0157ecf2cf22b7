import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";

interface Props {
  label: string;
  count: number;
  /** The height of every row in pixels. */
  rowHeight: number;
  render: (index: number) => ComponentChildren;
  /** What identifies a row, so that it keeps its element and the focus when it moves. By default its place. */
  itemKey?: (index: number) => string;
  /** Called with the rows that are shown, so that their data can be loaded. */
  onRange?: (first: number, last: number) => void;
}

const EXTRA_ROWS = 8;

/** A list in the page of which only the rows near the window exist, however many there are. */
export function VirtualList({ label, count, rowHeight, render, itemKey, onRange }: Props) {
  const element = useRef<HTMLUListElement>(null);
  const [range, setRange] = useState<[number, number]>([0, Math.ceil(window.innerHeight / rowHeight) + EXTRA_ROWS]);
  const measure = () => {
    if (!element.current) return;
    const top = -element.current.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(top / rowHeight) - EXTRA_ROWS);
    const last = Math.ceil((top + window.innerHeight) / rowHeight) + EXTRA_ROWS;
    setRange((shown) => (shown[0] === first && shown[1] === last ? shown : [first, last]));
  };
  useLayoutEffect(measure, [count, rowHeight]);
  useEffect(() => {
    window.addEventListener("scroll", measure, { passive: true });
    window.addEventListener("resize", measure);
    return () => {
      window.removeEventListener("scroll", measure);
      window.removeEventListener("resize", measure);
    };
  }, [rowHeight]);
  const first = Math.min(range[0], Math.max(0, count - 1));
  const last = Math.min(range[1], count);
  useEffect(() => onRange?.(first, last), [first, last]);
  const rows = [];
  for (let index = first; index < last; index += 1)
    rows.push(
      <li
        key={itemKey?.(index) ?? index}
        aria-setsize={count}
        aria-posinset={index + 1}
        class="virtual-row"
        style={{ height: `${rowHeight}px`, top: `${index * rowHeight}px` }}
      >
        {render(index)}
      </li>,
    );
  return (
    <ul ref={element} aria-label={label} class="virtual" style={{ height: `${count * rowHeight}px` }}>
      {rows}
    </ul>
  );
}
