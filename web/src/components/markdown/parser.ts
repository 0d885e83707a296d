/**
 * Markdown parser on `marked`, in two steps: blocks first, inline content when it is rendered. Input is untrusted:
 * nesting is bounded, and a link definition is a single line, because marked lets a title span everything that
 * follows, so that a late quote would change finished blocks.
 */
import { Lexer, Tokenizer, type Links, type Token, type Tokens } from 'marked';

const MAX_DEPTH = 12;
const PARAGRAPH_LENGTHS = [2000, 20_000];
const DEFINITION =
  /^ {0,3}\[([^\][\n\\]{1,200})\]:[ \t]+<?([^\s<>]{1,2000})>?(?:[ \t]+"([^"\n]{0,500})")?[ \t]*(?:\n+|$)/;

class BoundedTokenizer extends Tokenizer {
  private depth = 0;

  override blockquote(src: string): Tokens.Blockquote | undefined {
    return this.limitDepth(() => super.blockquote(src));
  }

  override list(src: string): Tokens.List | undefined {
    return this.limitDepth(() => super.list(src));
  }

  override link(src: string): Tokens.Link | Tokens.Image | undefined {
    return this.limitDepth(() => super.link(src));
  }

  override emStrong(src: string, masked: string, previous?: string): Tokens.Em | Tokens.Strong | undefined {
    return this.limitDepth(() => super.emStrong(src, masked, previous));
  }

  override del(src: string, masked: string, previous?: string): Tokens.Del | undefined {
    return this.limitDepth(() => super.del(src, masked, previous));
  }

  override table(src: string): Tokens.Table | undefined {
    // marked parses all rows before it rejects the header; many such headers take quadratic time.
    const head = /^[^\n]*\n[^\n]*/.exec(src)?.[0];
    return head !== undefined && super.table(head) ? super.table(src) : undefined;
  }

  override paragraph(src: string): Tokens.Paragraph | undefined {
    // marked looks for a table at each line, with all its rows. So parse a short prefix first, then a longer one if
    // needed; a paragraph longer than the last limit is split.
    for (const maxLength of PARAGRAPH_LENGTHS) {
      const end = src.indexOf('\n', maxLength);
      const limited = end < 0 ? src : src.slice(0, end);
      const token = super.paragraph(limited);
      if (
        !token ||
        end < 0 ||
        maxLength === PARAGRAPH_LENGTHS.at(-1) ||
        limited.slice(token.raw.length).split('\n').length > 3
      )
        return token;
    }
    return undefined;
  }

  override def(src: string): Tokens.Def | undefined {
    const match = DEFINITION.exec(src);
    if (!match) return undefined;
    const [raw, label = '', href = '', title = ''] = match;
    return { type: 'def', raw: raw.replace(/\n+$/, ''), tag: normalizeLabel(label), href, title };
  }

  private limitDepth<T>(parse: () => T | undefined): T | undefined {
    if (this.depth >= MAX_DEPTH) return undefined;
    this.depth += 1;
    try {
      return parse();
    } finally {
      this.depth -= 1;
    }
  }
}

/** Normalize a label as marked does to look it up. */
const normalizeLabel = (label: string): string => label.trim().toLowerCase().replaceAll(/\s+/g, ' ');

const createLexer = (): Lexer => new Lexer({ gfm: true, breaks: true, tokenizer: new BoundedTokenizer() });

/** Blocks of a text whose lines end with LF. Inline content is not parsed. */
export const blockTokens = (text: string): Token[] => createLexer().blockTokens(text, []);

/** Inline content of a paragraph, heading or table cell. */
export function inlineTokens(text: string, links: Links): Token[] {
  const lexer = createLexer();
  lexer.tokens.links = links;
  return lexer.inlineTokens(text);
}

/**
 * Blocks of a growing text. Only the tail is parsed again: a block is final once a blank line and two more blocks
 * follow it (the last one is open, and may turn out to belong to the one before: `1. a`, `2`, `.`).
 */
export interface ParsedText {
  /** The text with LF line ends. */
  readonly text: string;
  readonly blocks: readonly Token[];
  /** Number of final blocks; these keep their identity between parses. */
  readonly stableCount: number;
  /** Offset of the first block that is not final. */
  readonly offset: number;
}

const OPEN_BLOCKS = 2;
const MAX_DEFINITIONS = 200;

export function parseBlocks(rawText: string, previous?: ParsedText): ParsedText {
  const text = rawText.includes('\r') ? rawText.replaceAll(/\r\n?/g, '\n') : rawText;
  if (previous?.text === text) return previous;
  const reusable = previous && text.startsWith(previous.text.slice(0, previous.offset)) ? previous : undefined;
  const offset = reusable?.offset ?? 0;
  const stableBlocks = reusable?.blocks.slice(0, reusable.stableCount) ?? [];
  const tail = blockTokens(text.slice(offset)).map((token, index) => {
    const old = reusable?.blocks[stableBlocks.length + index];
    return old && isSameToken(old, token) ? old : token;
  });
  return { text, blocks: [...stableBlocks, ...tail], ...stablePrefixLength(text, tail, stableBlocks.length, offset) };
}

/** Compare everything: the same source can parse differently once more text follows. */
const isSameToken = (one: Token, other: Token): boolean =>
  one.type === other.type && one.raw === other.raw && JSON.stringify(one) === JSON.stringify(other);

/** Number of final blocks, and the offset where they end. */
function stablePrefixLength(
  text: string,
  tail: readonly Token[],
  stableCount: number,
  offset: number,
): { stableCount: number; offset: number } {
  const blockIndexes = tail.flatMap((token, index) => (token.type === 'space' ? [] : [index]));
  const firstOpen = blockIndexes.slice(0, 1 - OPEN_BLOCKS).findLast((index) => tail[index - 1]?.type === 'space');
  if (firstOpen === undefined) return { stableCount, offset };
  let end = offset;
  for (const { raw } of tail.slice(0, firstOpen)) {
    // marked normalizes `raw` of some blocks (quotes): if it differs from the source, the offset is unknown.
    if (!text.startsWith(raw, end)) return { stableCount, offset };
    end += raw.length;
  }
  return { stableCount: stableCount + firstOpen, offset: end };
}

const NO_LINKS: Links = Object.create(null) as Links;

/**
 * Link definitions of the blocks. While the text is open the last block is ignored: it changes with every character,
 * and all blocks would render again. Unchanged definitions keep their identity.
 */
export function linkDefinitions(tokens: readonly Token[], open: boolean, previous: Links = NO_LINKS): Links {
  const definitions = (open ? tokens.slice(0, -1) : tokens)
    .filter((token): token is Tokens.Def => token.type === 'def')
    .slice(0, MAX_DEFINITIONS);
  if (definitions.length === 0) return NO_LINKS;
  const links = Object.create(null) as Links;
  for (const { tag, href, title } of definitions) {
    links[tag] ??= { href, title };
  }
  const unchanged =
    Object.keys(links).length === Object.keys(previous).length &&
    Object.entries(links).every(([tag, { href }]) => previous[tag]?.href === href);
  return unchanged ? previous : links;
}

/** Create an incremental parser. It only remembers the last text; any other text is parsed from scratch. */
export function createBlockReader(): (text: string, open: boolean) => { blocks: readonly Token[]; links: Links } {
  let parsed: ParsedText | undefined;
  let links: Links | undefined;
  return (text, open) => {
    parsed = parseBlocks(text, parsed);
    links = linkDefinitions(parsed.blocks, open, links);
    return { blocks: parsed.blocks, links };
  };
}

/**
 * Drop a last line that is only marks so far: `-` would turn the line before into a heading, and then become a list.
 */
export function withoutPartialLine(text: string): string {
  const line = text.slice(text.lastIndexOf('\n') + 1);
  return line.length < 20 && /^[\s>]*(?:[-=*+#_~`|:]+\s?)+$/.test(line)
    ? text.slice(0, text.length - line.length)
    : text;
}

/** Whether the fenced block is complete. `raw` is the whole block. */
export function isFenceClosed(raw: string): boolean {
  const fence = /^ {0,3}(`{3,}|~{3,})/.exec(raw)?.[1];
  if (!fence) return true;
  const lines = raw.trimEnd().split('\n');
  return lines.length > 1 && (lines.at(-1)?.trim().startsWith(fence) ?? false);
}

/** Close marks that are still open at the end: `**bol` is bold, `[a link](https://exa` is its label. */
export function withClosedMarks(text: string): string {
  const plainText = text.replace(/!?\[([^\][\n]{0,300})(?:\](?:\([^)\s]{0,2000})?)?$/, '$1');
  if (isOddCount(plainText, '`')) return plainText.endsWith('`') ? plainText.replace(/`+$/, '') : `${plainText}\``;
  if (isOddCount(plainText, '**'))
    return plainText.endsWith('**') ? plainText.slice(0, -2) : `${plainText.replace(/\s?\*?$/, '')}**`;
  return plainText;
}

const isOddCount = (text: string, mark: string): boolean => text.split(mark).length % 2 === 0;

/** Complete the delimiter row of a table that is still streaming. */
export function provisionalTable(text: string): string | undefined {
  const [header = '', delimiters = '', thirdLine] = text.split('\n');
  if (thirdLine !== undefined || !/^ {0,3}\|.*\|\s*$/.test(header) || !/^[\s|:-]*$/.test(delimiters)) return undefined;
  const columns = header
    .trim()
    .slice(1, -1)
    .split(/(?<!\\)\|/).length;
  return `${header}\n${'| --- '.repeat(columns)}|`;
}
