// A text editor. It lives in a shadow root, where its styles are allowed without inline style elements.
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { HighlightStyle, StreamLanguage, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, setDiagnostics } from "@codemirror/lint";
import { searchKeymap } from "@codemirror/search";
import { Annotation, EditorState, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { markdown, python, typescript, yaml } from "./code-tokens";

export type CodeLanguage = "markdown" | "skill" | "yaml" | "json" | "python" | "typescript" | "text";

const LANGUAGES: Record<CodeLanguage, () => Extension> = {
  markdown: () => StreamLanguage.define(markdown),
  skill: () => StreamLanguage.define(markdown),
  yaml: () => StreamLanguage.define(yaml),
  json: () => StreamLanguage.define(typescript),
  python: () => StreamLanguage.define(python),
  typescript: () => StreamLanguage.define(typescript),
  text: () => [],
};

export interface Mark {
  /** Counted from 1. */
  line: number;
  column?: number;
  /** The column after the last one that is marked. Without it, the rest of the line is. */
  endColumn?: number;
  severity: "error" | "warning" | "info";
  message: string;
}

/** A place to show. Another object with the same place shows it again. */
export interface Jump {
  line: number;
  column?: number;
}

interface Props {
  label: string;
  value: string;
  language: CodeLanguage;
  onChange?: (value: string) => void;
  marks?: Mark[];
  isReadOnly?: boolean;
  jump?: Jump;
}

const colors = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--code-keyword)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" },
  { tag: tags.comment, color: "var(--quiet)", fontStyle: "italic" },
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
  { tag: tags.heading, fontWeight: "700", color: "var(--accent)" },
  { tag: tags.strong, fontWeight: "700" },
  { tag: tags.emphasis, fontStyle: "italic" },
  { tag: [tags.link, tags.url], color: "var(--accent)" },
]);

const look = EditorView.theme({
  "&": { fontSize: "14px", color: "var(--text)", backgroundColor: "var(--paper)" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  // The page says how high it may grow.
  ".cm-scroller": {
    fontFamily: "var(--mono)",
    lineHeight: "1.55",
    overflow: "auto",
    maxHeight: "var(--code-height, none)",
  },
  ".cm-content, .cm-gutter": { minHeight: "var(--code-least, 10rem)" },
  ".cm-content": { caretColor: "var(--text)", padding: "0.6rem 0" },
  ".cm-gutters": { backgroundColor: "var(--side)", color: "var(--quiet)", border: "none" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--accent) 6%, transparent)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "color-mix(in srgb, var(--accent) 25%, transparent) !important",
  },
  ".cm-tooltip, .cm-panels": { backgroundColor: "var(--paper)", color: "var(--text)", borderColor: "var(--line)" },
});

/** Marks a change that comes from the page. It is not reported back: an older text would replace a newer one, in a loop. */
const fromPage = Annotation.define<boolean>();

export function Code({ label, value, language, onChange, marks = [], isReadOnly = false, jump }: Props) {
  const host = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | undefined>(undefined);
  const change = useRef(onChange);
  change.current = onChange;
  useEffect(() => {
    if (!host.current) return;
    const root = host.current.shadowRoot ?? host.current.attachShadow({ mode: "open" });
    const extensions = [
      lineNumbers(),
      history(),
      drawSelection(),
      highlightActiveLine(),
      lintGutter(),
      syntaxHighlighting(colors),
      look,
      EditorView.lineWrapping,
      // Tab leaves the editor, as everywhere on the page.
      keymap.of([...defaultKeymap, ...searchKeymap, ...historyKeymap]),
      EditorView.contentAttributes.of({ "aria-label": label }),
      EditorState.readOnly.of(isReadOnly),
      LANGUAGES[language](),
      EditorView.updateListener.of((update) => {
        const isTyped = update.transactions.some((one) => one.docChanged && !one.annotation(fromPage));
        if (isTyped) change.current?.(update.state.doc.toString());
      }),
    ];
    const made = new EditorView({ parent: root, root, state: EditorState.create({ doc: value, extensions }) });
    view.current = made;
    return () => made.destroy();
  }, [language, label, isReadOnly]);
  // Right after rendering: an effect after the next paint would undo what was typed until then.
  useLayoutEffect(() => {
    const shown = view.current;
    if (!shown) return;
    const changes = difference(shown.state.doc.toString(), value);
    if (changes) shown.dispatch({ changes, annotations: fromPage.of(true) });
  }, [value]);
  useEffect(() => {
    const shown = view.current;
    if (!shown) return;
    shown.dispatch(
      setDiagnostics(
        shown.state,
        marks.map((mark) => diagnostic(shown.state, mark)),
      ),
    );
  }, [JSON.stringify(marks), language, label, isReadOnly]);
  useEffect(() => {
    const shown = view.current;
    if (!shown || !jump) return;
    const at = place(shown.state, jump.line, jump.column ?? 1);
    shown.dispatch({ selection: { anchor: at }, effects: EditorView.scrollIntoView(at, { y: "center" }) });
    shown.focus();
  }, [jump]);
  return <div class="code-editor" ref={host} />;
}

/** Return the smallest change that turns one text into another, so that the cursor and undoing work as if it was typed. */
function difference(before: string, after: string): { from: number; to: number; insert: string } | undefined {
  if (before === after) return undefined;
  let from = 0;
  while (from < before.length && from < after.length && before[from] === after[from]) from += 1;
  let end = 0;
  const most = Math.min(before.length, after.length) - from;
  while (end < most && before[before.length - 1 - end] === after[after.length - 1 - end]) end += 1;
  return { from, to: before.length - end, insert: after.slice(from, after.length - end) };
}

function place(state: EditorState, number: number, column: number): number {
  const line = state.doc.line(Math.min(Math.max(1, number), state.doc.lines));
  return Math.min(line.from + column - 1, line.to);
}

function diagnostic(state: EditorState, mark: Mark): Diagnostic {
  const from = place(state, mark.line, mark.column ?? 1);
  const to = Math.max(from, place(state, mark.line, mark.endColumn ?? Number.MAX_SAFE_INTEGER));
  return { from, to, severity: mark.severity, message: mark.message };
}
