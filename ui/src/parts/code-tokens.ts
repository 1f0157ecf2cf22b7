// Colors for texts and programs. Headings, comments, strings, numbers and keywords are enough to read a short file; a whole
// parser of each language would be a third of the size of the editor.
import type { StreamParser, StringStream } from "@codemirror/language";

interface State {
  /** What ends a string or a comment of several lines; empty outside of one. */
  end: string;
}

const PYTHON =
  "and as assert async await break class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try while with yield";
const TYPESCRIPT =
  "abstract as async await break case catch class const continue default delete do else enum export extends finally for from function if implements import in instanceof interface let new of private public readonly return satisfies static super switch this throw try type typeof var void while yield";
const VALUES = new Set(["True", "False", "None", "true", "false", "null", "undefined"]);

/** Read on to the end of a string or a comment. It goes on in the next line if its end is not in this one. */
function readOn(stream: StringStream, state: State): string {
  const kind = state.end === "*/" ? "comment" : "string";
  while (!stream.eol()) {
    if (stream.match(state.end)) {
      state.end = "";
      return kind;
    }
    if (stream.next() === "\\") stream.next();
  }
  // Only quotes that may span lines stay open.
  if (state.end.length === 1 && state.end !== "`") state.end = "";
  return kind;
}

function tokens(keywords: string, comment: string, quotes: RegExp): StreamParser<State> {
  const known = new Set(keywords.split(" "));
  return {
    startState: () => ({ end: "" }),
    token(stream, state) {
      if (state.end) return readOn(stream, state);
      if (stream.eatSpace()) return null;
      if (stream.match(comment)) {
        stream.skipToEnd();
        return "comment";
      }
      const quote = stream.match(quotes) as RegExpMatchArray | null;
      if (quote) {
        state.end = quote[1] ?? "*/";
        return readOn(stream, state);
      }
      if (stream.match(/^\d[\w.]*/)) return "number";
      const word = stream.match(/^[\p{L}_$][\p{L}\p{N}_$]*/u) as RegExpMatchArray | null;
      if (!word) stream.next();
      else if (VALUES.has(word[0])) return "bool";
      return word && known.has(word[0]) ? "keyword" : null;
    },
    languageData: { commentTokens: { line: comment } },
  };
}

export const python = tokens(PYTHON, "#", /^[rbfu]{0,2}("""|'''|"|')/i);
export const typescript = tokens(TYPESCRIPT, "//", /^(?:(["'`])|\/\*)/);

interface MarkdownState {
  /** Where the reader is: before the first line, in the frontmatter, in the text, or in code between fences. */
  place: "start" | "front" | "text" | "code";
}

/** Markdown, with frontmatter before it. */
export const markdown: StreamParser<MarkdownState> = {
  startState: () => ({ place: "start" }),
  token(stream, state) {
    if (stream.sol()) {
      const isRule = stream.match(/^---\s*$/, false);
      if (state.place === "start") state.place = isRule ? "front" : "text";
      else if (state.place === "front" && isRule) state.place = "text";
      else if (state.place !== "front" && stream.match(/^\s*(```|~~~)/, false)) {
        state.place = state.place === "code" ? "text" : "code";
        stream.skipToEnd();
        return "comment";
      }
      if (isRule) {
        stream.skipToEnd();
        return null;
      }
      if (state.place === "front" && stream.match(/^\s*(- )?["']?[\w.-]+["']?(?=:(\s|$))/)) return "propertyName";
      if (state.place === "text" && stream.match(/^#{1,6}\s.*/)) return "heading";
    }
    if (state.place === "code") {
      stream.skipToEnd();
      return "string";
    }
    if (state.place === "front") {
      if (stream.match(/^(\s|^)#.*/)) return "comment";
      if (stream.match(/^"(?:[^"\\]|\\.)*"|^'[^']*'/)) return "string";
      stream.next();
      stream.match(/^[^\s"']+/);
      return null;
    }
    if (stream.match(/^`[^`]+`/)) return "string";
    if (stream.match(/^\*\*[^*]+\*\*/)) return "strong";
    if (stream.match(/^!?\[[^\]]*\]\([^)]*\)|^https?:\/\/\S+/)) return "link";
    stream.next();
    stream.match(/^[^`*![h]+/);
    return null;
  },
};

export const yaml: StreamParser<MarkdownState> = { ...markdown, startState: () => ({ place: "front" }) };
