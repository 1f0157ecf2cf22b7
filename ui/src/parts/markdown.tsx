// Markdown as elements. No HTML of the text is used, no picture is loaded, and links lead only to safe places.
//
// People decide about skills by what they read here, and a model is given the source. So nothing may be left out: a block whose
// letters are not all shown is shown as it is written.
import { lexer, type Token, type Tokens } from "marked";
import { type ComponentChildren, Fragment, isValidElement, type VNode } from "preact";
import { useMemo } from "preact/hooks";

const SAFE_LINK = /^(https?:\/\/|mailto:|#)/i;
// The lexer takes seconds for some texts that are longer.
const LONGEST = 50_000;
const DEEPEST = 16;

export function Markdown({ text }: { text: string }) {
  const shown = useMemo(() => read(text), [text]);
  return (
    <div class="markdown" dir="auto">
      {shown}
    </div>
  );
}

function read(text: string): ComponentChildren {
  try {
    if (text.length <= LONGEST) return blocks(lexer(text, { gfm: true }), 0);
  } catch (error) {
    // Deep nesting exhausts the stack of the lexer.
    if (!(error instanceof RangeError)) throw error;
  }
  return source(text);
}

function source(text: string): VNode {
  return <pre class="raw">{text}</pre>;
}

function blocks(tokens: Token[], depth: number): VNode[] {
  return tokens.map((token, number) => {
    const shown = depth < DEEPEST ? block(token, depth) : undefined;
    return <Fragment key={number}>{shown && isWhole(token, shown) ? shown : source(token.raw.trim())}</Fragment>;
  });
}

const ENTITY = /&(amp|lt|gt|quot|#39);/g;
const CONTAINERS = ["list", "blockquote"];
const TICK = /^([\s>]*(?:[-*+]|\d+[.)])\s+)\[x\]/gim;

/** Return true if all letters and digits of a block are shown; of a list, without its numbers and ticks. */
function isWhole(token: Token, shown: VNode): boolean {
  const isContainer = CONTAINERS.includes(token.type);
  const marks = isContainer ? /[^\p{L}]+/gu : /[^\p{L}\p{N}]+/gu;
  const written = isContainer ? token.raw.replace(TICK, "$1") : token.raw;
  const [expected, found] = [written, textOf(shown)].map((text) => text.replace(ENTITY, "").replace(marks, ""));
  return expected === found;
}

function textOf(shown: ComponentChildren): string {
  if (Array.isArray(shown)) return shown.map(textOf).join("");
  if (isValidElement(shown)) return textOf((shown.props as { children?: ComponentChildren }).children);
  return typeof shown === "string" ? shown : "";
}

function block(token: Token, depth: number): VNode {
  switch (token.type) {
    case "heading": {
      // The page has the first level.
      const Level = `h${Math.min((token as Tokens.Heading).depth + 1, 6)}` as "h2";
      return <Level>{inline(token)}</Level>;
    }
    case "paragraph":
      return <p>{inline(token)}</p>;
    case "text":
      return <>{inline(token)}</>;
    case "code": {
      const { lang, text } = token as Tokens.Code;
      return (
        <pre tabIndex={0}>
          {lang && <span class="lang">{`${lang}\n`}</span>}
          <code>{text}</code>
        </pre>
      );
    }
    case "blockquote":
      return <blockquote>{blocks((token as Tokens.Blockquote).tokens, depth + 1)}</blockquote>;
    case "list":
      return list(token as Tokens.List, depth);
    case "table":
      return table(token as Tokens.Table);
    case "hr":
      return <hr />;
    // Browsers show no comments, and no definitions of links.
    case "html":
    case "def":
      return source(token.raw.trim());
    default:
      return <>{inline(token)}</>;
  }
}

function list(token: Tokens.List, depth: number): VNode {
  const items = token.items.map((item, number) => (
    <li key={number}>
      {item.task && <input type="checkbox" checked={item.checked} disabled aria-label={item.text.slice(0, 100)} />}
      {blocks(item.tokens.filter(isNoTick), depth + 1)}
    </li>
  ));
  return token.ordered ? <ol start={Number(token.start) || 1}>{items}</ol> : <ul>{items}</ul>;
}

function isNoTick(token: Token): boolean {
  return token.type !== "checkbox";
}

function table(token: Tokens.Table): VNode {
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            {token.header.map((cell, number) => (
              <th key={number}>{spans(cell.tokens)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {token.rows.map((row, number) => (
            <tr key={number}>
              {row.map((cell, column) => (
                <td key={column}>{spans(cell.tokens)}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function inline(token: Token): ComponentChildren {
  return "tokens" in token && token.tokens ? spans(token.tokens) : plain("text" in token ? token.text : token.raw);
}

function spans(tokens: Token[]): VNode[] {
  return tokens.map((token, number) => <Fragment key={number}>{span(token)}</Fragment>);
}

function span(token: Token): ComponentChildren {
  switch (token.type) {
    case "strong":
      return <strong>{inline(token)}</strong>;
    case "em":
      return <em>{inline(token)}</em>;
    case "del":
      return <del>{inline(token)}</del>;
    case "codespan":
      return <code>{(token as Tokens.Codespan).text}</code>;
    case "br":
      return <br />;
    case "link":
      return link(token as Tokens.Link, inline(token));
    case "image":
      return link(token as Tokens.Image, `🖼 ${plain((token as Tokens.Image).text)}`);
    case "html":
      return <code>{token.raw}</code>;
    case "checkbox":
      return null;
    default:
      return inline(token);
  }
}

/** A link with its address, which a model reads and a text such as "the docs" does not tell. */
function link({ href, title }: Tokens.Link | Tokens.Image, text: ComponentChildren): VNode {
  const name = textOf(text);
  const isNamed = [name, `mailto:${name}`, `http://${name}`].includes(href);
  const address = [isNamed ? "" : href, title ?? ""].filter(Boolean).join(" ");
  const isHere = href.startsWith("#");
  return (
    <>
      {SAFE_LINK.test(href) ? (
        <a href={href} {...(isHere ? {} : { target: "_blank", rel: "noopener noreferrer nofollow" })}>
          {text}
        </a>
      ) : (
        text
      )}
      {address && <span class="address">{` (${address})`}</span>}
    </>
  );
}

const ENTITIES: Record<string, string> = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'" };

/** Undo the escaping that the lexer does for HTML. Elements need none. */
function plain(text: string): string {
  return text.replace(ENTITY, (found) => ENTITIES[found] ?? found);
}
