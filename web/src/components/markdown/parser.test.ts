import { describe, expect, it } from 'vitest';
import { growth } from '@/testing/growth';
import {
  blockTokens,
  inlineTokens,
  parseBlocks,
  linkDefinitions,
  type ParsedText,
  isFenceClosed,
  withoutPartialLine,
  withClosedMarks,
  provisionalTable,
} from './parser';

/** Inputs that make Markdown parsers slow, with approximately `size` characters. */
const BLOCKS: [string, (size: number) => string][] = [
  ['setext headings', (size) => 'a\n-\n'.repeat(size / 4)],
  ['table headers', (size) => 'a\n|-|-|\n'.repeat(size / 8)],
  ['quotes', (size) => '>'.repeat(size)],
  [
    'quotes in quotes',
    (size) => Array.from({ length: Math.sqrt(size) }, (_, depth) => `${'> '.repeat(depth)}x`).join('\n'),
  ],
  [
    'lists in quotes',
    (size) => Array.from({ length: size / 50 }, (_, index) => `${'> '.repeat(index % 12)}- x`).join('\n'),
  ],
  [
    'lists in lists',
    (size) => Array.from({ length: Math.sqrt(size / 2) }, (_, depth) => `${'  '.repeat(depth)}- x`).join('\n'),
  ],
  ['list items', (size) => '- a\n'.repeat(size / 4)],
  ['table rows', (size) => `|a|b|\n|-|-|\n${'|a|b|\n'.repeat(size / 6)}`],
  ['fences', (size) => '```a`\n'.repeat(size / 6)],
  ['link definitions', (size) => '[a]: b "\n'.repeat(size / 9)],
  ['HTML tags', (size) => '<a \n'.repeat(size / 4)],
  ['HTML comments', (size) => '<!-- \n'.repeat(size / 6)],
  ['blank lines', (size) => '\n \n'.repeat(size / 3)],
];

const INLINES: [string, string][] = [
  '*',
  'a*',
  '_a',
  '**a*',
  '[',
  '[a](',
  '![[',
  '~a~',
  '<',
  '<!--',
  '`a``',
  'https://a.example/',
  'a@b.',
].map((mark) => [mark, `${mark.repeat(1000)})`]);

describe('parsing', () => {
  it.each(BLOCKS)('takes linear time for blocks of %s', (_, text) => {
    expect(growth((size) => blockTokens(text(size)), 160_000)).toBeLessThan(100);
  });

  it.each(INLINES)('is fast for a line of repeated %s', (_, text) => {
    const startTime = performance.now();
    inlineTokens(text, {});

    expect(performance.now() - startTime).toBeLessThan(10_000); // Only a guard against a hang: usually some 10 ms.
  });

  it('limits the nesting depth', () => {
    const depth = (value: unknown): number =>
      typeof value === 'object' && value !== null ? 1 + Math.max(0, ...Object.values(value).map(depth)) : 0;

    expect(depth(blockTokens('> '.repeat(500)))).toBeLessThan(60);
    expect(depth(inlineTokens(`${'*_'.repeat(200)}a${'_*'.repeat(200)}`, {}))).toBeLessThan(60);
  });

  it('accepts a link definition only on one line', () => {
    expect(blockTokens('[a]: https://x.example "t\n\nmore"').map((token) => token.type)).toEqual([
      'paragraph',
      'space',
      'paragraph',
    ]);
    expect(blockTokens('[A  b]: <https://x.example> "t"')).toEqual([
      { type: 'def', raw: '[A  b]: <https://x.example> "t"', tag: 'a b', href: 'https://x.example', title: 't' },
    ]);
  });
});

const PIECES = [
  'word',
  ' ',
  '  ',
  '    ',
  '\n',
  '\n',
  '\n\n',
  '\n\n',
  '\n\n',
  '\r\n',
  '- ',
  '* ',
  '1. ',
  '2',
  '.',
  ')',
  '# ',
  '## x',
  '> ',
  '>',
  '```',
  '```js\n',
  '~~~',
  '`',
  '**',
  '_',
  '|',
  '| a | b |',
  '\n|---|---|\n',
  '---',
  '===',
  '-',
  '=',
  '<div>',
  '</div>',
  '<!--',
  '-->',
  '<script>',
  '[a]: http://x.y',
  '[a]:',
  ' "t',
  '"',
  '[a]',
  '](',
  ')',
  '![',
  '\t',
  '\\',
  '- [ ] ',
  '- [x] ',
  '&amp;',
  'é',
  '\u202E',
  '😀',
];

/** A random number generator with a seed. */
function dice(seed: number): (below: number) => number {
  let state = seed * 2_654_435_761 + 1;
  return (below) => {
    state = Math.imul(state ^ (state >>> 15), 2_246_822_519) + 0x9e3779b9;
    return ((state ^ (state >>> 13)) >>> 0) % below;
  };
}

function randomMarkdown(roll: (below: number) => number, length: number): string {
  return Array.from({ length }, () => PIECES[roll(PIECES.length)]).join('');
}

describe('blocks', () => {
  it('of a growing text are those of the complete text, for any chunks', () => {
    for (let seed = 1; seed <= 1500; seed += 1) {
      const roll = dice(seed);
      const text = randomMarkdown(roll, 5 + roll(60));
      let parsed: ParsedText | undefined;
      for (let end = 0; end < text.length; end += 1 + roll(7)) parsed = parseBlocks(text.slice(0, end), parsed);
      parsed = parseBlocks(text, parsed);
      const expected = blockTokens(text.replaceAll(/\r\n?/g, '\n'));
      if (JSON.stringify(parsed.blocks) !== JSON.stringify(expected))
        throw new Error(
          `seed ${seed}: ${JSON.stringify(text)}\n${JSON.stringify(parsed.blocks)}\n${JSON.stringify(expected)}`,
        );
    }
  });

  it('keep their identity once they are final, and only the tail is parsed again', () => {
    const text = Array.from({ length: 50 }, (_, index) => `Paragraph ${index}\n\n`).join('');
    const first = parseBlocks(text);
    const second = parseBlocks(`${text}more`, first);

    expect(second.stableCount).toBeGreaterThan(90);
    expect(second.blocks.slice(0, first.stableCount).every((block, index) => block === first.blocks[index])).toBe(true);
    expect(text.length - first.offset).toBeLessThan(40);
  });

  it('are parsed from scratch for a different text', () => {
    const first = parseBlocks('one\n\ntwo\n\nthree\n\nfour');

    expect(parseBlocks('# other', first)).toEqual(parseBlocks('# other'));
  });
});

describe('link definitions', () => {
  const { blocks } = parseBlocks('See [a].\n\n[a]: https://one.example "One"\n[b]: https://two.example');

  it('leave out the last one while the text is streaming', () => {
    expect({ ...linkDefinitions(blocks, true) }).toEqual({ a: { href: 'https://one.example', title: 'One' } });
    expect(Object.keys(linkDefinitions(blocks, false))).toEqual(['a', 'b']);
  });

  it('keep their identity while they are unchanged', () => {
    const first = linkDefinitions(blocks, false);

    expect(linkDefinitions(blocks, false, first)).toBe(first);
  });
});

describe('the end of a streaming text', () => {
  it.each([
    ['Items:\n-', 'Items:\n'],
    ['Items:\n- ', 'Items:\n'],
    ['Items:\n- a', 'Items:\n- a'],
    ['a\n**', 'a\n'],
    ['a\n**b', 'a\n**b'],
    ['> -', ''],
    ['```js\ncode\n``', '```js\ncode\n'],
    ['a\n---\n', 'a\n---\n'],
    ['', ''],
  ])('is held back while it is only marks: %j', (text, expected) => expect(withoutPartialLine(text)).toBe(expected));

  it.each([
    ['a **bol', 'a **bol**'],
    ['a **', 'a '],
    ['a **b** c', 'a **b** c'],
    ['run `npm', 'run `npm`'],
    ['run `', 'run '],
    ['see [the docs](https://exa', 'see the docs'],
    ['see [the do', 'see the do'],
    ['see ![a pic', 'see a pic'],
    ['see [it](https://a.b) now', 'see [it](https://a.b) now'],
  ])('has its open marks closed: %j', (text, expected) => expect(withClosedMarks(text)).toBe(expected));

  it.each([
    ['| a | b |', '| a | b |\n| --- | --- |'],
    ['| a | b |\n|--', '| a | b |\n| --- | --- |'],
    ['| a | b', undefined],
    ['a | b |', undefined],
    ['| a |\nwords', undefined],
  ])('becomes a table before its delimiter row is complete: %j', (text, expected) =>
    expect(provisionalTable(text)).toBe(expected),
  );

  it.each([
    ['```js\na', false],
    ['```js\na\n```', true],
    ['```js\na\n````\n', true],
    ['~~~\na\n```', false],
    ['```', false],
    ['    indented', true],
  ])('is a closed or open code fence: %j', (text, isClosed) => expect(isFenceClosed(text)).toBe(isClosed));
});
