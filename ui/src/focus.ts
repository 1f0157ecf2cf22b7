// The focus of an element that disappears: a button whose work is done, a row that was deleted.

const PLACES = "form, li, article, section, dialog, [role=tabpanel], #main";

/** Move a focus that is lost to what was around it. Otherwise a screen reader begins at the top of the page again. */
export function keepFocus() {
  // Where the person was last, from the inside out.
  let path: EventTarget[] = [];
  const note = (event: Event) => {
    path = event.composedPath();
  };
  document.addEventListener("focusin", note);
  document.addEventListener("pointerdown", note);
  new MutationObserver(() => {
    const [last, ...around] = path;
    if (document.activeElement !== document.body || !(last instanceof Element) || last.isConnected) return;
    const place = around.find((one) => one instanceof HTMLElement && one.isConnected && one.matches(PLACES));
    path = [];
    if (!(place instanceof HTMLElement)) return;
    if (!place.hasAttribute("tabindex")) place.tabIndex = -1;
    place.focus({ preventScroll: true });
  }).observe(document.body, { childList: true, subtree: true });
}
