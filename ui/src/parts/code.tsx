// A text editor. It lives in a shadow root, where its styles are allowed without inline style elements.
import { closeBrackets, closeBracketsKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { yamlFrontmatter, yamlLanguage } from "@codemirror/lang-yaml";
import {
  bracketMatching,
  defineLanguageFacet,
  HighlightStyle,
  Language,
  LRLanguage,
  languageDataProp,
  StreamLanguage,
  syntaxHighlighting,
} from "@codemirror/language";
import { type Diagnostic, lintGutter, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { parser as jsonParser } from "@lezer/json";
import { GFM, parser as markdownParser } from "@lezer/markdown";
import { useEffect, useRef } from "preact/hooks";
import { t } from "../i18n";
import { python, typescript } from "./code-tokens";

export type CodeLanguage = "markdown" | "skill" | "yaml" | "json" | "python" | "typescript" | "text";

// The parsers alone: CodeMirror's packages of languages add those of HTML and CSS, and completion, which is half of the size.
const markdownData = defineLanguageFacet();
const markdown = new Language(
  markdownData,
  markdownParser.configure([GFM, { props: [languageDataProp.add({ Document: markdownData })] }]),
  [],
  "markdown",
);

const LANGUAGES: Record<CodeLanguage, () => Extension> = {
  markdown: () => markdown,
  skill: () => yamlFrontmatter({ content: markdown }),
  yaml: () => yamlLanguage,
  json: () => LRLanguage.define({ parser: jsonParser }),
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
  ".cm-textfield, .cm-button": {
    font: "inherit",
    color: "inherit",
    background: "var(--paper)",
    border: "1px solid var(--field)",
  },
  ".cm-tooltip, .cm-panels": { backgroundColor: "var(--paper)", color: "var(--text)", borderColor: "var(--line)" },
});

/** The words of the search panel. */
function phrases(): Record<string, string> {
  return {
    Find: t("editor.code_find"),
    Replace: t("editor.code_replace"),
    next: t("editor.code_next"),
    previous: t("editor.code_previous"),
    all: t("editor.code_all"),
    "match case": t("editor.code_case"),
    regexp: t("editor.code_regexp"),
    "by word": t("editor.code_word"),
    replace: t("editor.code_replace"),
    "replace all": t("editor.code_replace_all"),
    close: t("editor.code_close"),
    "Go to line": t("editor.code_line"),
    go: t("editor.code_go"),
  };
}

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
      bracketMatching(),
      closeBrackets(),
      highlightActiveLine(),
      highlightSelectionMatches(),
      lintGutter(),
      syntaxHighlighting(colors),
      look,
      EditorView.lineWrapping,
      // Tab leaves the editor, as everywhere on the page.
      keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...searchKeymap, ...historyKeymap]),
      EditorView.contentAttributes.of({ "aria-label": label }),
      EditorState.readOnly.of(isReadOnly),
      EditorState.phrases.of(phrases()),
      LANGUAGES[language](),
      EditorView.updateListener.of((update) => {
        if (update.docChanged) change.current?.(update.state.doc.toString());
      }),
    ];
    const made = new EditorView({ parent: root, root, state: EditorState.create({ doc: value, extensions }) });
    view.current = made;
    return () => made.destroy();
  }, [language, label, isReadOnly]);
  useEffect(() => {
    const shown = view.current;
    if (!shown) return;
    const change = difference(shown.state.doc.toString(), value);
    if (change) shown.dispatch({ changes: change });
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
