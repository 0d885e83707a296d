import { describe, expect, it } from 'vitest';
import { blockTokens, inlineTokens } from './lexer';

/** What makes readers of Markdown slow. */
const BLOCKS: [string, string][] = [
  ['underlines', 'a\n-\n'.repeat(40_000)],
  ['heads of tables', 'a\n|-|-|\n'.repeat(20_000)],
  ['quotes', '>'.repeat(190_000)],
  ['quotes in quotes', Array.from({ length: 400 }, (_, depth) => `${'> '.repeat(depth)}x`).join('\n')],
  ['lists in quotes', Array.from({ length: 3000 }, (_, line) => `${'> '.repeat(line % 12)}- x`).join('\n')],
  ['lists in lists', Array.from({ length: 300 }, (_, depth) => `${'  '.repeat(depth)}- x`).join('\n')],
  ['items', '- a\n'.repeat(40_000)],
  ['rows', `|a|b|\n|-|-|\n${'|a|b|\n'.repeat(30_000)}`],
  ['fences', '```a`\n'.repeat(30_000)],
  ['definitions', '[a]: b "\n'.repeat(20_000)],
  ['tags', '<a \n'.repeat(40_000)],
  ['comments', '<!-- \n'.repeat(30_000)],
  ['blank lines', '\n \n'.repeat(60_000)],
];

const INLINES: [string, string][] = ['*', 'a*', '_a', '**a*', '[', '[a](', '![[', '~a~', '<', '<!--', '`a``', 'https://a.example/', 'a@b.'].map((mark) => [mark, `${mark.repeat(1000)})`]);

describe('reading', () => {
  it.each(BLOCKS)('blocks of %s takes no time to speak of', (_, text) => {
    const began = performance.now();
    blockTokens(text);

    expect(performance.now() - began).toBeLessThan(10_000); // Tens of milliseconds as a rule; where time grows with the square it is far more.
  });

  it.each(INLINES)('a line of %s takes no time to speak of', (_, text) => {
    const began = performance.now();
    inlineTokens(text, {});

    expect(performance.now() - began).toBeLessThan(1000);
  });

  it('goes only so deep', () => {
    const depth = (value: unknown): number => (typeof value === 'object' && value !== null ? 1 + Math.max(0, ...Object.values(value).map(depth)) : 0);

    expect(depth(blockTokens('> '.repeat(500)))).toBeLessThan(60);
    expect(depth(inlineTokens(`${'*_'.repeat(200)}a${'_*'.repeat(200)}`, {}))).toBeLessThan(60);
  });

  it('takes a link definition only when it is one line', () => {
    expect(blockTokens('[a]: https://x.example "t\n\nmore"').map((token) => token.type)).toEqual(['paragraph', 'space', 'paragraph']);
    expect(blockTokens('[A  b]: <https://x.example> "t"')).toEqual([
      { type: 'def', raw: '[A  b]: <https://x.example> "t"', tag: 'a b', href: 'https://x.example', title: 't' },
    ]);
  });
});
