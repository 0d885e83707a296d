/**
 * Markdown read by `marked`, in two steps: blocks first, the inside of a line when it is drawn.
 *
 * What comes in is untrusted, so nesting is bounded (deeper marks stay text), and a link definition is one line: marked
 * lets a title run over everything that follows, and then a late quote would change what was long since drawn.
 */
import { Lexer, Tokenizer, type Links, type Token, type Tokens } from 'marked';

const MAX_DEPTH = 12;
const PARAGRAPHS = [2000, 20_000];
const DEFINITION =
  /^ {0,3}\[([^\][\n\\]{1,200})\]:[ \t]+<?([^\s<>]{1,2000})>?(?:[ \t]+"([^"\n]{0,500})")?[ \t]*(?:\n+|$)/;

class BoundedLexer extends Tokenizer {
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
      if (!found || end < 0 || most === PARAGRAPHS.at(-1) || seen.slice(found.raw.length).split('\n').length > 3)
        return found;
    }
    return undefined;
  }

  override def(src: string): Tokens.Def | undefined {
    const found = DEFINITION.exec(src);
    if (!found) return undefined;
    const [raw, label = '', href = '', title = ''] = found;
    return { type: 'def', raw: raw.replace(/\n+$/, ''), tag: linkReferences(label), href, title };
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
const linkReferences = (label: string): string => label.trim().toLowerCase().replaceAll(/\s+/g, ' ');

const lexer = (): Lexer => new Lexer({ gfm: true, breaks: true, tokenizer: new BoundedLexer() });

/** The blocks of a text whose line ends are \n. What stands inside their lines is not read. */
export const blockTokens = (text: string): Token[] => lexer().blockTokens(text, []);

/** What stands inside a paragraph, a heading, a table's cell. */
export function inlineTokens(text: string, links: Links): Token[] {
  const reader = lexer();
  reader.tokens.links = links;
  return reader.inlineTokens(text);
}

/**
 * The blocks of a growing text. Only its tail is read again: a block cannot change any more, whatever comes, once a
 * blank
 * line and two more blocks follow it (the last is open, and may turn out to belong to the one before it: `1. a`, `2`,
 * `.`).
 */
export interface ParsedText {
  /** The text, line ends made plain. */
  readonly text: string;
  readonly blocks: readonly Token[];
  /** So many blocks are final; they are the same objects from one reading to the next. */
  readonly settled: number;
  /** Where the first block begins that is not. */
  readonly offset: number;
}

const OPEN_BLOCKS = 2;
const MAX_DEFINITIONS = 200;

export function parseBlocks(given: string, before?: ParsedText): ParsedText {
  const text = given.includes('\r') ? given.replaceAll(/\r\n?/g, '\n') : given;
  if (before?.text === text) return before;
  const kept = before !== undefined && text.startsWith(before.text.slice(0, before.offset)) ? before : undefined;
  const offset = kept?.offset ?? 0;
  const settled = kept?.blocks.slice(0, kept.settled) ?? [];
  const tail = blockTokens(text.slice(offset)).map((token, index) => {
    const old = kept?.blocks[settled.length + index];
    return old && keepStableBlocks(old, token) ? old : token;
  });
  return { text, blocks: [...settled, ...tail], ...stablePrefixLength(text, tail, settled.length, offset) };
}

/** The same written text may be read in two ways as it grows (what follows it counts): all of it is compared. */
const keepStableBlocks = (one: Token, other: Token): boolean =>
  one.type === other.type && one.raw === other.raw && JSON.stringify(one) === JSON.stringify(other);

/** How far the blocks are final now. */
function stablePrefixLength(
  text: string,
  tail: readonly Token[],
  settled: number,
  offset: number,
): { settled: number; offset: number } {
  const filled = tail.flatMap((token, index) => (token.type === 'space' ? [] : [index]));
  const open = filled.slice(0, 1 - OPEN_BLOCKS).findLast((index) => tail[index - 1]?.type === 'space');
  if (open === undefined) return { settled, offset };
  let end = offset;
  for (const { raw } of tail.slice(0, open)) {
    // marked mends some raws (quotes): where one is not what stands there, nothing after it is counted on.
    if (!text.startsWith(raw, end)) return { settled, offset };
    end += raw.length;
  }
  return { settled: settled + open, offset: end };
}

const NO_LINKS: Links = Object.create(null) as Links;

/**
 * What labels stand for, by the definitions among the blocks. While the text is open the last block does not count: it
 * changes with every letter, and all blocks would be drawn again. The same labels are the same object.
 */
export function linkDefinitions(found: readonly Token[], open: boolean, before: Links = NO_LINKS): Links {
  const definitions = (open ? found.slice(0, -1) : found)
    .filter((token): token is Tokens.Def => token.type === 'def')
    .slice(0, MAX_DEFINITIONS);
  if (definitions.length === 0) return NO_LINKS;
  const now = Object.create(null) as Links;
  for (const { tag, href, title } of definitions) {
    now[tag] ??= { href, title };
  }
  const unchanged =
    Object.keys(now).length === Object.keys(before).length &&
    Object.entries(now).every(([tag, { href }]) => before[tag]?.href === href);
  return unchanged ? before : now;
}

/** Reads one text as it grows. What it was given last is all that it remembers; any other text is right as well. */
export function createBlockReader(): (text: string, open: boolean) => { blocks: readonly Token[]; links: Links } {
  let laid: ParsedText | undefined;
  let defined: Links | undefined;
  return (text, open) => {
    laid = parseBlocks(text, laid);
    defined = linkDefinitions(laid.blocks, open, defined);
    return { blocks: laid.blocks, links: defined };
  };
}

/** Without a last line that is only marks yet: `-` would make a heading of the line before it, and then be a list. */
export function completedText(text: string): string {
  const line = text.slice(text.lastIndexOf('\n') + 1);
  return line.length < 20 && /^[\s>]*(?:[-=*+#_~`|:]+\s?)+$/.test(line)
    ? text.slice(0, text.length - line.length)
    : text;
}

/** Is the code of this fenced block complete? `raw` is the whole of the block. */
export function withClosedFence(raw: string): boolean {
  const fence = /^ {0,3}(`{3,}|~{3,})/.exec(raw)?.[1];
  if (!fence) return true;
  const last = raw.trimEnd().split('\n');
  return last.length > 1 && (last.at(-1)?.trim().startsWith(fence) ?? false);
}

/** The last paragraph with what it has opened closed: `**bol` is bold, `[a link](https://exa` is its words. */
export function withClosedMarks(text: string): string {
  const unlinked = text.replace(/!?\[([^\][\n]{0,300})(?:\](?:\([^)\s]{0,2000})?)?$/, '$1');
  if (isOddCount(unlinked, '`')) return unlinked.endsWith('`') ? unlinked.replace(/`+$/, '') : `${unlinked}\``;
  if (isOddCount(unlinked, '**'))
    return unlinked.endsWith('**') ? unlinked.slice(0, -2) : `${unlinked.replace(/\s?\*?$/, '')}**`;
  return unlinked;
}

const isOddCount = (text: string, mark: string): boolean => text.split(mark).length % 2 === 0;

/** A paragraph that begins a table whose second line is not whole yet, as the table it will be. */
export function completeTableRows(text: string): string | undefined {
  const [header = '', rule = '', more] = text.split('\n');
  if (more !== undefined || !/^ {0,3}\|.*\|\s*$/.test(header) || !/^[\s|:-]*$/.test(rule)) return undefined;
  const columns = header
    .trim()
    .slice(1, -1)
    .split(/(?<!\\)\|/).length;
  return `${header}\n${'| --- '.repeat(columns)}|`;
}
