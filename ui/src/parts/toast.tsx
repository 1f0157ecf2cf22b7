// Short words about what just happened, at the edge of the page.
import { signal } from "@preact/signals";
import { t } from "../i18n";
import { asProblem, Words } from "./states";

interface Toast {
  id: number;
  text: string;
  tone: "good" | "bad";
}

const toasts = signal<Toast[]>([]);
let last = 0;
const SHOWN_MS = 8_000;

/** Say that something was done, or what went wrong. */
export function say(text: string, tone: Toast["tone"] = "good") {
  last += 1;
  const toast = { id: last, text, tone };
  toasts.value = [...toasts.value.slice(-3), toast];
  window.setTimeout(() => dismiss(toast.id), SHOWN_MS);
}

/** Do something for a click, and say what went wrong if it fails. Return its result, or undefined. */
export async function attempt<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    const problem = asProblem(error);
    say(problem.isOffline ? t("states.offline") : [problem.message, problem.hint].filter(Boolean).join(" "), "bad");
    return undefined;
  }
}

function dismiss(id: number) {
  toasts.value = toasts.value.filter((toast) => toast.id !== id);
}

export function Toasts() {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((toast) => (
        <div key={toast.id} class={`toast ${toast.tone}`}>
          <span>
            <Words text={toast.text} />
          </span>
          <button type="button" class="icon-button" aria-label={t("states.close")} onClick={() => dismiss(toast.id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
