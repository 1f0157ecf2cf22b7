// Markdown as elements. No HTML of the text is used, no picture is loaded, and links lead only to safe places.
import { lexer, type Token, type Tokens } from "marked";
import type { ComponentChildren, VNode } from "preact";
import { useMemo } from "preact/hooks";

const SAFE_LINK = /^(https?:\/\/|mailto:|#)/i;
const LONGEST = 200_000;

export function Markdown({ text }: { text: string }) {
  const tokens = useMemo(() => lexer(text.slice(0, LONGEST), { gfm: true }), [text]);
  return <div class="markdown">{blocks(tokens)}</div>;
}

function blocks(tokens: Token[]): ComponentChildren {
  return tokens.map((token, number) => <Block key={number} token={token} />);
}

function Block({ token }: { token: Token }): VNode | null {
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
    case "code":
      return (
        <pre tabIndex={0}>
          <code>{(token as Tokens.Code).text}</code>
        </pre>
      );
    case "blockquote":
      return <blockquote>{blocks((token as Tokens.Blockquote).tokens)}</blockquote>;
    case "list":
      return <List list={token as Tokens.List} />;
    case "table":
      return <Table table={token as Tokens.Table} />;
    case "hr":
      return <hr />;
    case "html":
      return <pre class="raw">{token.raw}</pre>;
    // A definition of a link is not shown by browsers, so it may hide a text from the person who reads the skill.
    case "def":
      return <pre class="raw">{token.raw.trim()}</pre>;
    case "space":
      return null;
    default:
      return <>{inline(token)}</>;
  }
}

function List({ list }: { list: Tokens.List }) {
  const items = list.items.map((item, number) => (
    <li key={number}>
      {item.task && <input type="checkbox" checked={item.checked} disabled aria-label={item.text.slice(0, 100)} />}
      {blocks(item.tokens)}
    </li>
  ));
  return list.ordered ? <ol start={Number(list.start) || 1}>{items}</ol> : <ul>{items}</ul>;
}

function Table({ table }: { table: Tokens.Table }) {
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            {table.header.map((cell, number) => (
              <th key={number}>{spans(cell.tokens)}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row, number) => (
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

function spans(tokens: Token[]): ComponentChildren {
  return tokens.map((token, number) => <Span key={number} token={token} />);
}

function Span({ token }: { token: Token }): VNode {
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
      return <Link href={(token as Tokens.Link).href}>{inline(token)}</Link>;
    case "image": {
      const image = token as Tokens.Image;
      return <Link href={image.href}>🖼 {image.text || image.href}</Link>;
    }
    case "html":
      return <code>{token.raw}</code>;
    default:
      return <>{inline(token)}</>;
  }
}

function Link({ href, children }: { href: string; children: ComponentChildren }) {
  if (!SAFE_LINK.test(href)) return <span title={href}>{children}</span>;
  const isHere = href.startsWith("#");
  return (
    <a href={href} {...(isHere ? {} : { target: "_blank", rel: "noopener noreferrer nofollow" })}>
      {children}
    </a>
  );
}

const ENTITIES: Record<string, string> = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'" };

/** Undo the escaping that the lexer does for HTML. Elements need none. */
function plain(text: string): string {
  return text.replace(/&(amp|lt|gt|quot|#39);/g, (found) => ENTITIES[found] ?? found);
}
