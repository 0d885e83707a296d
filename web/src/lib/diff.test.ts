import { describe, expect, it } from 'vitest';
import { toolCallsDiff, valueChanges, textDiff } from './diff';

const longText = (seed: string): string => Array.from({ length: 30_000 }, (_, index) => `${seed}${index}`).join(' ');

describe('a text diff', () => {
  it('compares by words', () => {
    expect(textDiff('The sky is blue.', 'The sea is blue.')).toEqual([
      { text: 'The ', change: 'same' },
      { text: 'sky', change: 'removed' },
      { text: 'sea', change: 'added' },
      { text: ' is blue.', change: 'same' },
    ]);
  });

  it('has one piece for equal texts and none for empty texts', () => {
    expect([textDiff('a b', 'a b'), textDiff('', ''), textDiff('', 'new')]).toEqual([
      [{ text: 'a b', change: 'same' }],
      [],
      [{ text: 'new', change: 'added' }],
    ]);
  });

  it('contains both texts completely', () => {
    const base = 'one two  three\nfour';
    const other = 'two 3\n\nfour five';
    const pieces = textDiff(base, other);

    expect(
      pieces
        .filter(({ change }) => change !== 'added')
        .map(({ text }) => text)
        .join(''),
    ).toBe(base);
    expect(
      pieces
        .filter(({ change }) => change !== 'removed')
        .map(({ text }) => text)
        .join(''),
    ).toBe(other);
  });

  it('of long texts without common words ends soon', () => {
    const startTime = performance.now();

    expect(textDiff(longText('a'), longText('b')).length).toBeGreaterThan(1);
    expect(performance.now() - startTime).toBeLessThan(30_000); // Only a guard against a hang: usually 0.2 s.
  });
});

describe('a diff of tool calls', () => {
  const add = { name: 'add', arguments: '{"a": 2, "b": 3}' };
  const weather = { name: 'weather', arguments: '{"city":"Oslo"}' };

  it('ignores the order and formatting of arguments', () => {
    expect(toolCallsDiff([add], [{ ...add, arguments: '{"b":3,"a":2}' }])).toEqual([
      { call: { ...add, arguments: '{"b":3,"a":2}' }, change: 'same' },
    ]);
  });

  it('lists changed and added arguments', () => {
    const other = { name: 'add', arguments: '{"a": 2, "b": 4, "c": 1}' };

    expect(toolCallsDiff([add], [other])).toEqual([
      {
        call: other,
        change: 'changed',
        changes: [
          { path: '/b', from: 3, to: 4 },
          { path: '/c', from: undefined, to: 1 },
        ],
      },
    ]);
  });

  it('marks calls on only one side as added or removed', () => {
    expect(toolCallsDiff([add, weather], [weather, add])).toEqual([
      { call: add, change: 'removed' },
      { call: weather, change: 'same' },
      { call: add, change: 'added' },
    ]);
  });

  it('compares arguments that are not JSON as text', () => {
    const [one, other] = [
      { name: 'run', arguments: 'ls' },
      { name: 'run', arguments: 'ls -l' },
    ];

    expect(toolCallsDiff([one], [other])).toEqual([
      { call: other, change: 'changed', changes: [{ path: '', from: 'ls', to: 'ls -l' }] },
    ]);
  });
});

it('compares objects recursively, and other values as a whole', () => {
  expect(valueChanges({ a: { b: 1, c: [1] }, 'x/y': 1 }, { a: { b: 2, c: [1, 2] } })).toEqual([
    { path: '/a/b', from: 1, to: 2 },
    { path: '/a/c', from: [1], to: [1, 2] },
    { path: '/x~1y', from: 1, to: undefined },
  ]);
});
