/**
 * Markdown read by `marked`, in two steps: blocks first, the inside of a line when it is drawn.
 *
 * What comes in is untrusted, so nesting is bounded (deeper marks stay text), and a link definition is one line: marked
 * lets a title run over everything that follows, and then a late quote would change what was long since drawn.
 */
import { Lexer, Tokenizer, type Links, type Token, type Tokens } from 'marked';

const MAX_DEPTH = 12;
const PARAGRAPHS = [2000, 20_000];
const DEFINITION = /^ {0,3}\[([^\][\n\\]{1,200})\]:[ \t]+<?([^\s<>]{1,2000})>?(?:[ \t]+"([^"\n]{0,500})")?[ \t]*(?:\n+|$)/;

class Bounded extends Tokenizer {
  private depth = 0;

  override blockquote(src: string): Tokens.Blockquote | undefined {
    return this.deeper(() => super.blockquote(src));
  }

  override list(src: string): Tokens.List | undefined {
    return this.deeper(() => super.list(src));
  }

  override link(src: string): Tokens.Link | Tokens.Image | undefined {
    return this.deeper(() => super.link(src));
  }

  override emStrong(src: string, masked: string, previous?: string): Tokens.Em | Tokens.Strong | undefined {
    return this.deeper(() => super.emStrong(src, masked, previous));
  }

  override del(src: string, masked: string, previous?: string): Tokens.Del | undefined {
    return this.deeper(() => super.del(src, masked, previous));
  }

  override table(src: string): Tokens.Table | undefined {
    // marked reads all rows before it sees that the head is none: with many such heads the time would be their square.
    const head = /^[^\n]*\n[^\n]*/.exec(src)?.[0];
    return head !== undefined && super.table(head) ? super.table(src) : undefined;
  }

  override paragraph(src: string): Tokens.Paragraph | undefined {
    // It looks at each line for a table, with all its rows: the same square. So it sees a little, then more if it must;
    // a paragraph longer than the last of these is two.
    for (const most of PARAGRAPHS) {
      const end = src.indexOf('\n', most);
      const seen = end < 0 ? src : src.slice(0, end);
      const found = super.paragraph(seen);
      if (!found || end < 0 || most === PARAGRAPHS.at(-1) || seen.slice(found.raw.length).split('\n').length > 3) return found;
    }
    return undefined;
  }

  override def(src: string): Tokens.Def | undefined {
    const found = DEFINITION.exec(src);
    if (!found) return undefined;
    const [raw, label = '', href = '', title = ''] = found;
    return { type: 'def', raw: raw.replace(/\n+$/, ''), tag: labelled(label), href, title };
  }

  private deeper<T>(read: () => T | undefined): T | undefined {
    if (this.depth >= MAX_DEPTH) return undefined;
    this.depth += 1;
    try {
      return read();
    } finally {
      this.depth -= 1;
    }
  }
}

/** A label as marked looks it up. */
const labelled = (label: string): string => label.trim().toLowerCase().replaceAll(/\s+/g, ' ');

const lexer = (): Lexer => new Lexer({ gfm: true, breaks: true, tokenizer: new Bounded() });

/** The blocks of a text whose line ends are \n. What stands inside their lines is not read. */
export const blockTokens = (text: string): Token[] => lexer().blockTokens(text, []);

/** What stands inside a paragraph, a heading, a table's cell. */
export function inlineTokens(text: string, links: Links): Token[] {
  const reader = lexer();
  reader.tokens.links = links;
  return reader.inlineTokens(text);
}
