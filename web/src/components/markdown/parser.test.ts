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

/** What makes readers of Markdown slow, about so many characters of it. */
const BLOCKS: [string, (size: number) => string][] = [
  ['underlines', (size) => 'a\n-\n'.repeat(size / 4)],
  ['heads of tables', (size) => 'a\n|-|-|\n'.repeat(size / 8)],
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
  ['items', (size) => '- a\n'.repeat(size / 4)],
  ['rows', (size) => `|a|b|\n|-|-|\n${'|a|b|\n'.repeat(size / 6)}`],
  ['fences', (size) => '```a`\n'.repeat(size / 6)],
  ['definitions', (size) => '[a]: b "\n'.repeat(size / 9)],
  ['tags', (size) => '<a \n'.repeat(size / 4)],
  ['comments', (size) => '<!-- \n'.repeat(size / 6)],
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

describe('reading', () => {
  it.each(BLOCKS)('blocks of %s takes time in proportion to them', (_, text) => {
    expect(growth((size) => blockTokens(text(size)), 160_000)).toBeLessThan(100);
  });

  it.each(INLINES)('a line of %s takes no time to speak of', (_, text) => {
    const startTime = performance.now();
    inlineTokens(text, {});

    expect(performance.now() - startTime).toBeLessThan(10_000); // A watchdog: some hundredths of a second as a rule.
  });

  it('goes only so deep', () => {
    const depth = (value: unknown): number =>
      typeof value === 'object' && value !== null ? 1 + Math.max(0, ...Object.values(value).map(depth)) : 0;

    expect(depth(blockTokens('> '.repeat(500)))).toBeLessThan(60);
    expect(depth(inlineTokens(`${'*_'.repeat(200)}a${'_*'.repeat(200)}`, {}))).toBeLessThan(60);
  });

  it('takes a link definition only when it is one line', () => {
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

/** A random number that is the same each time. */
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
  it('of a text that grows are those of the whole, however it was cut', () => {
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

  it('stay the same objects once they are settled, and only the tail is read again', () => {
    const text = Array.from({ length: 50 }, (_, index) => `Paragraph ${index}\n\n`).join('');
    const first = parseBlocks(text);
    const second = parseBlocks(`${text}more`, first);

    expect(second.stableCount).toBeGreaterThan(90);
    expect(second.blocks.slice(0, first.stableCount).every((block, index) => block === first.blocks[index])).toBe(true);
    expect(text.length - first.offset).toBeLessThan(40);
  });

  it('begin anew where the text is another', () => {
    const first = parseBlocks('one\n\ntwo\n\nthree\n\nfour');

    expect(parseBlocks('# other', first)).toEqual(parseBlocks('# other'));
  });
});

describe('links', () => {
  const { blocks } = parseBlocks('See [a].\n\n[a]: https://one.example "One"\n[b]: https://two.example');

  it('leave out the last definition while it is being written', () => {
    expect({ ...linkDefinitions(blocks, true) }).toEqual({ a: { href: 'https://one.example', title: 'One' } });
    expect(Object.keys(linkDefinitions(blocks, false))).toEqual(['a', 'b']);
  });

  it('are the same object as long as they say the same', () => {
    const first = linkDefinitions(blocks, false);

    expect(linkDefinitions(blocks, false, first)).toBe(first);
  });
});

describe('the end of an open text', () => {
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
  ])('has what it opened closed: %j', (text, expected) => expect(withClosedMarks(text)).toBe(expected));

  it.each([
    ['| a | b |', '| a | b |\n| --- | --- |'],
    ['| a | b |\n|--', '| a | b |\n| --- | --- |'],
    ['| a | b', undefined],
    ['a | b |', undefined],
    ['| a |\nwords', undefined],
  ])('is a table before its second line is whole: %j', (text, expected) =>
    expect(provisionalTable(text)).toBe(expected),
  );

  it.each([
    ['```js\na', false],
    ['```js\na\n```', true],
    ['```js\na\n````\n', true],
    ['~~~\na\n```', false],
    ['```', false],
    ['    indented', true],
  ])('is code that is whole or not: %j', (text, isClosed) => expect(isFenceClosed(text)).toBe(isClosed));
});
