import { describe, expect, it } from 'vitest';
import { closedFence, held, mended, table } from './tail';

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
  ])('is held back while it is only marks: %j', (text, shown) => expect(held(text)).toBe(shown));

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
  ])('has what it opened closed: %j', (text, shown) => expect(mended(text)).toBe(shown));

  it.each([
    ['| a | b |', '| a | b |\n| --- | --- |'],
    ['| a | b |\n|--', '| a | b |\n| --- | --- |'],
    ['| a | b', undefined],
    ['a | b |', undefined],
    ['| a |\nwords', undefined],
  ])('is a table before its second line is whole: %j', (text, shown) => expect(table(text)).toBe(shown));

  it.each([
    ['```js\na', false],
    ['```js\na\n```', true],
    ['```js\na\n````\n', true],
    ['~~~\na\n```', false],
    ['```', false],
    ['    indented', true],
  ])('is code that is whole or not: %j', (text, whole) => expect(closedFence(text)).toBe(whole));
});
