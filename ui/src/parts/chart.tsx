// A line chart of numbers over time, with the same numbers as a table for those who do not see it.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { moment } from "../format";
import { theme } from "../state";
import "uplot/dist/uPlot.min.css";

export interface Series {
  label: string;
  values: (number | null)[];
}

interface Props {
  label: string;
  /** Times in milliseconds, in order. */
  times: number[];
  series: Series[];
  format: (value: number) => string;
  height?: number;
}

const COLORS = ["--chart-1", "--chart-2", "--chart-3", "--chart-4", "--chart-5", "--chart-6"];

export function Chart({ label, times, series, format, height = 200 }: Props) {
  const host = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = host.current;
    if (!element) return;
    const style = getComputedStyle(element);
    const color = (name: string) => style.getPropertyValue(name).trim();
    const axis = { stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false } };
    const plot = new uPlot(
      {
        width: element.clientWidth,
        height,
        legend: { show: series.length > 1 },
        cursor: { points: { size: 6 } },
        series: [
          {},
          ...series.map((one, number) => ({
            label: one.label,
            stroke: color(COLORS[number % COLORS.length] as string),
            width: 2,
            value: (_: uPlot, value: number | null) => (value === null ? "–" : format(value)),
          })),
        ],
        axes: [axis, { ...axis, size: 64, values: (_: uPlot, values: number[]) => values.map(format) }],
        scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), high || 1] } },
      },
      [times.map((time) => time / 1000), ...series.map((one) => one.values)],
      element,
    );
    const resized = new ResizeObserver(() => plot.setSize({ width: element.clientWidth, height }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      plot.destroy();
    };
  }, [JSON.stringify([times, series]), height, theme.value]);
  return (
    <figure class="chart">
      <figcaption>{label}</figcaption>
      <div ref={host} aria-hidden="true" />
      <table class="hidden-text">
        <caption>{label}</caption>
        <tbody>
          {times.map((time, row) => (
            <tr key={time}>
              <th scope="row">{moment(time)}</th>
              {series.map((one) => (
                <td key={one.label}>
                  {one.label}: {one.values[row] == null ? "–" : format(one.values[row] as number)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </figure>
  );
}
