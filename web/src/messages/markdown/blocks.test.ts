import { describe, expect, it } from 'vitest';
import { blocks, links, type Laid } from './blocks';
import { blockTokens } from './lexer';

const PIECES = [
  'word', ' ', '  ', '    ', '\n', '\n', '\n\n', '\n\n', '\n\n', '\r\n', '- ', '* ', '1. ', '2', '.', ')', '# ', '## x', '> ', '>', '```', '```js\n', '~~~', '`', '**', '_', '|', '| a | b |', '\n|---|---|\n',
  '---', '===', '-', '=', '<div>', '</div>', '<!--', '-->', '<script>', '[a]: http://x.y', '[a]:', ' "t', '"', '[a]', '](', ')', '![', '\t', '\\', '- [ ] ', '- [x] ', '&amp;', 'é', '\u202E', '😀',
];

/** A random number that is the same each time. */
function dice(seed: number): (below: number) => number {
  let state = seed * 2_654_435_761 + 1;
  return (below) => {
    state = Math.imul(state ^ (state >>> 15), 2_246_822_519) + 0x9e3779b9;
    return ((state ^ (state >>> 13)) >>> 0) % below;
  };
}

function written(roll: (below: number) => number, length: number): string {
  return Array.from({ length }, () => PIECES[roll(PIECES.length)]).join('');
}

describe('blocks', () => {
  it('of a text that grows are those of the whole, however it was cut', () => {
    for (let seed = 1; seed <= 1500; seed += 1) {
      const roll = dice(seed);
      const text = written(roll, 5 + roll(60));
      let laid: Laid | undefined;
      for (let end = 0; end < text.length; end += 1 + roll(7)) laid = blocks(text.slice(0, end), laid);
      laid = blocks(text, laid);
      const whole = blockTokens(text.replaceAll(/\r\n?/g, '\n'));
      if (JSON.stringify(laid.blocks) !== JSON.stringify(whole)) throw new Error(`seed ${seed}: ${JSON.stringify(text)}\n${JSON.stringify(laid.blocks)}\n${JSON.stringify(whole)}`);
    }
  });

  it('stay the same objects once they are settled, and only the tail is read again', () => {
    const text = Array.from({ length: 50 }, (_, index) => `Paragraph ${index}\n\n`).join('');
    const first = blocks(text);
    const second = blocks(`${text}more`, first);

    expect(second.settled).toBeGreaterThan(90);
    expect(second.blocks.slice(0, first.settled).every((block, index) => block === first.blocks[index])).toBe(true);
    expect(text.length - first.offset).toBeLessThan(40);
  });

  it('begin anew where the text is another', () => {
    const first = blocks('one\n\ntwo\n\nthree\n\nfour');

    expect(blocks('# other', first)).toEqual(blocks('# other'));
  });
});

describe('links', () => {
  const { blocks: found } = blocks('See [a].\n\n[a]: https://one.example "One"\n[b]: https://two.example');

  it('leave out the last definition while it is being written', () => {
    expect({ ...links(found, true) }).toEqual({ a: { href: 'https://one.example', title: 'One' } });
    expect(Object.keys(links(found, false))).toEqual(['a', 'b']);
  });

  it('are the same object as long as they say the same', () => {
    const first = links(found, false);

    expect(links(found, false, first)).toBe(first);
  });
});
