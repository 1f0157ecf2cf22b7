// A chart of numbers over time, with the same numbers as a table for those who do not see it.
import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { moment } from "../format";
import { language } from "../i18n";
import { theme } from "../state";
import "uplot/dist/uPlot.min.css";

export interface Series {
  label: string;
  values: (number | null)[];
  /** Which color it has; by default, that of its place. */
  color?: number;
}

interface Props {
  label: string;
  /** Times in milliseconds, in order. */
  times: number[];
  series: Series[];
  format: (value: number) => string;
  height?: number;
  /** Bars suit sums, and stand on each other; lines suit values that are not sums. */
  look?: "lines" | "bars";
  /** True if each time is the beginning of a day in UTC. */
  isDaily?: boolean;
  /** True for a series of what should not happen. */
  isBad?: boolean;
  /** True if the caption is only for screen readers, because a heading says the same. */
  isQuiet?: boolean;
}

const COLORS = ["--chart-1", "--chart-2", "--chart-3", "--chart-4", "--chart-5", "--chart-6"];
/** A line with as few values as this has a point at each. One value has no line at all. */
const FEW_VALUES = 14;
const WHOLE_STEPS = [...Array(10).keys()].flatMap((power) => [1, 2, 5].map((step) => step * 10 ** power));
/** Room for a label below the chart, in pixels. */
const LABEL_WIDTH = 60;

export function Chart({ label, times, series, format, height = 200, look = "lines", isDaily, isBad, isQuiet }: Props) {
  const [at, setAt] = useState<number | null>(null);
  const colors = isBad && series.length === 1 ? ["--bad"] : COLORS;
  const host = useRef<HTMLDivElement>(null);
  const zone = isDaily ? "UTC" : undefined;
  const day = new Intl.DateTimeFormat(language, { day: "numeric", month: "short", timeZone: zone });
  const hour = new Intl.DateTimeFormat(language, { hour: "2-digit", minute: "2-digit", timeZone: zone });
  const name = (time: number) => (isDaily ? day.format(time) : moment(time));
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const style = getComputedStyle(element);
    const color = (variable: string) => resolve(style.getPropertyValue(variable), element);
    const axis = {
      stroke: color("--quiet"),
      font: `12px ${style.fontFamily}`,
      grid: { stroke: color("--line"), width: 1 },
      ticks: { show: false },
    };
    const span = (times.at(-1) ?? 0) - (times[0] ?? 0);
    const isHours = !isDaily && span < 2 * 86_400_000;
    const bars = uPlot.paths.bars?.({ size: [0.7, 40], ...(series.length === 1 && { radius: 0.15 }) });
    // Bars of several series stand on each other: each is drawn up to the sum of those below it, the highest first.
    const drawn = series.map((one, number) => ({
      ...one,
      number,
      values: look === "bars" ? stack(series, number) : one.values,
    }));
    if (look === "bars") drawn.reverse();
    const isWhole = series.every((one) => one.values.every((value) => value == null || Number.isInteger(value)));
    const plot = new uPlot(
      {
        width: element.clientWidth,
        height,
        legend: { show: false },
        hooks: { setCursor: [(plot) => setAt(plot.cursor.idx ?? null)] },
        cursor: { points: { size: 6 }, drag: { x: false, y: false } },
        series: [
          {},
          ...drawn.map((one) => {
            const stroke = color(colors[(one.color ?? one.number) % colors.length] as string);
            return {
              label: one.label,
              stroke,
              width: look === "bars" ? 0 : 2,
              spanGaps: true,
              ...(look === "bars" && { fill: stroke, ...(bars && { paths: bars }) }),
              points: {
                show: look === "lines" && one.values.filter((value) => value != null).length <= FEW_VALUES,
                size: 6,
                fill: stroke,
              },
            };
          }),
        ],
        axes: [
          {
            ...axis,
            grid: { show: false },
            size: 26,
            // Labels stand at times that have a value, and never between two days.
            splits: (plot) => spread(times, Math.max(2, Math.floor(plot.width / LABEL_WIDTH) - 1)),
            values: (_: uPlot, found: number[]) => found.map((time) => (isHours ? hour : day).format(time * 1000)),
          },
          // Whole numbers, such as those of runs, have no halves between them.
          {
            ...axis,
            size: 58,
            ...(isWhole && { incrs: WHOLE_STEPS }),
            values: (_: uPlot, values: number[]) => values.map(format),
          },
        ],
        scales: {
          x: { range: (_, low, high) => (look === "bars" || low === high ? padded(times) : [low, high]) },
          y: { range: (_, low, high) => [Math.min(0, low ?? 0), high ? high * 1.08 : 1] },
        },
      },
      [times.map((time) => time / 1000), ...drawn.map((one) => one.values)],
      element,
    );
    const resized = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      plot.destroy();
    };
  }, [JSON.stringify([times, series]), height, look, theme.value]);
  return (
    <figure class="chart">
      <figcaption class={isQuiet ? "hidden-text" : undefined}>{label}</figcaption>
      <div ref={host} aria-hidden="true" />
      <p class="chart-read" aria-hidden="true">
        <span>{at === null ? "" : name(times[at] ?? 0)}</span>
        {(series.length > 1 || at !== null) &&
          series.map((one, number) => (
            <span key={one.label}>
              <i style={{ background: `var(${colors[(one.color ?? number) % colors.length]})` }} />
              {one.label} {at !== null && <strong>{one.values[at] == null ? "–" : format(one.values[at])}</strong>}
            </span>
          ))}
      </p>
      <div class="hidden-text">
        <table>
          <caption>{label}</caption>
          <tbody>
            {times.map((time, row) => (
              <tr key={time}>
                <th scope="row">{name(time)}</th>
                {series.map((one) => (
                  <td key={one.label}>
                    {series.length > 1 && `${one.label}: `}
                    {one.values[row] == null ? "–" : format(one.values[row] as number)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </figure>
  );
}

/** Return the sums of a series and those before it. */
function stack(series: Series[], last: number): (number | null)[] {
  const below = series.slice(0, last + 1);
  return (series[last]?.values ?? []).map((_, time) => below.reduce((sum, one) => sum + (one.values[time] ?? 0), 0));
}

/** Return at most so many of the times in seconds, evenly. */
function spread(times: number[], most: number): number[] {
  const step = Math.max(1, Math.ceil(times.length / most));
  return times.filter((_, number) => number % step === 0).map((time) => time / 1000);
}

/** Return the first and the last time in seconds, with half a bar at each side. */
function padded(times: number[]): [number, number] {
  const [first, last] = [(times[0] ?? 0) / 1000, (times.at(-1) ?? 0) / 1000];
  const half = times.length > 1 ? (last - first) / (times.length - 1) / 2 : 43_200;
  return [first - half, last + half];
}

/** Return a color that a canvas understands: `light-dark()` means something only in a style. */
function resolve(value: string, element: HTMLElement): string {
  element.style.color = value.trim();
  const found = getComputedStyle(element).color;
  element.style.color = "";
  return found;
}
