// Keys that work on every page: `g` and a letter opens a page, `/` goes to the search box, `?` lists the keys.

import { useEffect } from "preact/hooks";
import { useLocation } from "preact-iso";
import { MENU } from "./routes";

const WAIT_MS = 1500;

/** Return True if a key was typed into a field, where it is text, or with a key that makes it a command of the browser. */
export function isTyping(event: KeyboardEvent): boolean {
  const target = event.composedPath()[0];
  const isField =
    target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
  return isField || event.ctrlKey || event.metaKey || event.altKey || event.isComposing;
}

/** Call the function of a key while a part is shown: `useKeys({ a: approve, d: deny })`. */
export function useKeys(keys: Record<string, (event: KeyboardEvent) => void>) {
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      const action = keys[event.key];
      if (!action || isTyping(event) || document.querySelector("dialog[open]")) return;
      event.preventDefault();
      action(event);
    };
    window.addEventListener("keydown", press);
    return () => window.removeEventListener("keydown", press);
  });
}

export function useShortcuts(showHelp: () => void) {
  const { route } = useLocation();
  useEffect(() => {
    let isGoing = 0;
    const press = (event: KeyboardEvent) => {
      if (isTyping(event) || document.querySelector("dialog[open]")) return;
      if (Date.now() - isGoing < WAIT_MS) {
        isGoing = 0;
        const entry = MENU.flatMap((group) => group.entries).find((one) => one.key === event.key);
        if (!entry) return;
        // The page itself must not act on the second key.
        event.stopImmediatePropagation();
        event.preventDefault();
        route(entry.path);
      } else if (event.key === "g") isGoing = Date.now();
      else if (event.key === "?") showHelp();
      else if (event.key === "/") {
        event.preventDefault();
        document.querySelector<HTMLElement>("main input[type=search]")?.focus();
      }
    };
    window.addEventListener("keydown", press, { capture: true });
    return () => window.removeEventListener("keydown", press, { capture: true });
  }, []);
}
