/**
 * The blocks of a growing text. Only its tail is read again: a block cannot change any more, whatever comes, once a blank
 * line and two more blocks follow it (the last is open, and may turn out to belong to the one before it: `1. a`, `2`, `.`).
 */
import type { Links, Token, Tokens } from 'marked';
import { blockTokens } from './lexer';

export interface Laid {
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

export function blocks(given: string, before?: Laid): Laid {
  const text = given.includes('\r') ? given.replaceAll(/\r\n?/g, '\n') : given;
  if (before?.text === text) return before;
  const kept = before !== undefined && text.startsWith(before.text.slice(0, before.offset)) ? before : undefined;
  const offset = kept?.offset ?? 0;
  const settled = kept?.blocks.slice(0, kept.settled) ?? [];
  const tail = blockTokens(text.slice(offset)).map((token, index) => {
    const old = kept?.blocks[settled.length + index];
    return old && same(old, token) ? old : token;
  });
  return { text, blocks: [...settled, ...tail], ...settling(text, tail, settled.length, offset) };
}

/** The same written text may be read in two ways as it grows (what follows it counts): all of it is compared. */
const same = (one: Token, other: Token): boolean =>
  one.type === other.type && one.raw === other.raw && JSON.stringify(one) === JSON.stringify(other);

/** How far the blocks are final now. */
function settling(text: string, tail: readonly Token[], settled: number, offset: number): { settled: number; offset: number } {
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

const NONE: Links = Object.create(null) as Links;

/**
 * What labels stand for, by the definitions among the blocks. While the text is open the last block does not count: it
 * changes with every letter, and all blocks would be drawn again. The same labels are the same object.
 */
export function links(found: readonly Token[], open: boolean, before: Links = NONE): Links {
  const definitions = (open ? found.slice(0, -1) : found).filter((token): token is Tokens.Def => token.type === 'def').slice(0, MAX_DEFINITIONS);
  if (definitions.length === 0) return NONE;
  const now = Object.create(null) as Links;
  for (const { tag, href, title } of definitions) {
    now[tag] ??= { href, title };
  }
  const unchanged = Object.keys(now).length === Object.keys(before).length && Object.entries(now).every(([tag, { href }]) => before[tag]?.href === href);
  return unchanged ? before : now;
}

/** Reads one text as it grows. What it was given last is all that it remembers; any other text is right as well. */
export function reader(): (text: string, open: boolean) => { blocks: readonly Token[]; links: Links } {
  let laid: Laid | undefined;
  let defined: Links | undefined;
  return (text, open) => {
    laid = blocks(text, laid);
    defined = links(laid.blocks, open, defined);
    return { blocks: laid.blocks, links: defined };
  };
}
