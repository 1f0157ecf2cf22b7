// A text editor. It lives in a shadow root, where its styles are allowed without inline style elements.
import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { javascript } from "@codemirror/lang-javascript";
import { json } from "@codemirror/lang-json";
import { markdown } from "@codemirror/lang-markdown";
import { python } from "@codemirror/lang-python";
import { yaml, yamlFrontmatter } from "@codemirror/lang-yaml";
import { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, setDiagnostics } from "@codemirror/lint";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { EditorState, type Extension } from "@codemirror/state";
import { drawSelection, EditorView, highlightActiveLine, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { useEffect, useRef } from "preact/hooks";

export type CodeLanguage = "markdown" | "skill" | "yaml" | "json" | "python" | "typescript" | "text";

const LANGUAGES: Record<CodeLanguage, () => Extension> = {
  markdown: () => markdown(),
  skill: () => yamlFrontmatter({ content: markdown() }),
  yaml: () => yaml(),
  json: () => json(),
  python: () => python(),
  typescript: () => javascript({ typescript: true }),
  text: () => [],
};

export interface Mark {
  /** Counted from 1. */
  line: number;
  column?: number;
  severity: "error" | "warning" | "info";
  message: string;
}

interface Props {
  label: string;
  value: string;
  language: CodeLanguage;
  onChange?: (value: string) => void;
  marks?: Mark[];
  isReadOnly?: boolean;
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
  "&": { fontSize: "14px", color: "var(--text)", backgroundColor: "var(--paper)", minHeight: "10rem" },
  "&.cm-focused": { outline: "2px solid var(--accent)", outlineOffset: "-2px" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-content": { caretColor: "var(--text)", padding: "0.6rem 0" },
  ".cm-gutters": { backgroundColor: "var(--side)", color: "var(--quiet)", border: "none" },
  ".cm-activeLine": { backgroundColor: "color-mix(in srgb, var(--accent) 6%, transparent)" },
  ".cm-cursor": { borderLeftColor: "var(--text)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": {
    backgroundColor: "color-mix(in srgb, var(--accent) 25%, transparent) !important",
  },
  ".cm-tooltip, .cm-panels": { backgroundColor: "var(--paper)", color: "var(--text)", borderColor: "var(--line)" },
});

export function Code({ label, value, language, onChange, marks = [], isReadOnly = false }: Props) {
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
      autocompletion(),
      highlightActiveLine(),
      highlightSelectionMatches(),
      lintGutter(),
      syntaxHighlighting(colors),
      look,
      EditorView.lineWrapping,
      // Tab leaves the editor, as everywhere on the page.
      keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...searchKeymap, ...historyKeymap, ...completionKeymap]),
      EditorView.contentAttributes.of({ "aria-label": label }),
      EditorState.readOnly.of(isReadOnly),
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
    if (shown && shown.state.doc.toString() !== value)
      shown.dispatch({ changes: { from: 0, to: shown.state.doc.length, insert: value } });
  }, [value]);
  useEffect(() => {
    const shown = view.current;
    if (shown)
      shown.dispatch(
        setDiagnostics(
          shown.state,
          marks.map((mark) => diagnostic(shown.state, mark)),
        ),
      );
  }, [JSON.stringify(marks), value]);
  return <div class="code-editor" ref={host} />;
}

function diagnostic(state: EditorState, mark: Mark): Diagnostic {
  const line = state.doc.line(Math.min(Math.max(1, mark.line), state.doc.lines));
  const from = mark.column ? Math.min(line.from + mark.column - 1, line.to) : line.from;
  return { from, to: line.to, severity: mark.severity, message: mark.message };
}
