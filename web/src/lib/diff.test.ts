import { describe, expect, it } from 'vitest';
import { toolCallsDiff, valueChanges, textDiff } from './diff';

const longText = (seed: string): string => Array.from({ length: 30_000 }, (_, index) => `${seed}${index}`).join(' ');

describe('texts', () => {
  it('differ by words', () => {
    expect(textDiff('The sky is blue.', 'The sea is blue.')).toEqual([
      { text: 'The ', change: 'same' },
      { text: 'sky', change: 'removed' },
      { text: 'sea', change: 'added' },
      { text: ' is blue.', change: 'same' },
    ]);
  });

  it('that are the same are one piece, and nothing is no piece', () => {
    expect([textDiff('a b', 'a b'), textDiff('', ''), textDiff('', 'new')]).toEqual([
      [{ text: 'a b', change: 'same' }],
      [],
      [{ text: 'new', change: 'added' }],
    ]);
  });

  it('lose nothing: without what was added it is the base, without what was removed the other', () => {
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

  it('that share nothing and are long are told apart as a whole, soon', () => {
    const startTime = performance.now();

    expect(textDiff(longText('a'), longText('b')).length).toBeGreaterThan(1);
    expect(performance.now() - startTime).toBeLessThan(30_000); // A watchdog: a fifth of a second as a rule.
  });
});

describe('tool calls', () => {
  const add = { name: 'add', arguments: '{"a": 2, "b": 3}' };
  const weather = { name: 'weather', arguments: '{"city":"Oslo"}' };

  it('with equal arguments are the same, however those are written', () => {
    expect(toolCallsDiff([add], [{ ...add, arguments: '{"b":3,"a":2}' }])).toEqual([
      { call: { ...add, arguments: '{"b":3,"a":2}' }, change: 'same' },
    ]);
  });

  it('tell which arguments changed, came and went', () => {
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

  it('that only one side has are added or removed', () => {
    expect(toolCallsDiff([add, weather], [weather, add])).toEqual([
      { call: add, change: 'removed' },
      { call: weather, change: 'same' },
      { call: add, change: 'added' },
    ]);
  });

  it('whose arguments are no JSON are compared as texts', () => {
    const [one, other] = [
      { name: 'run', arguments: 'ls' },
      { name: 'run', arguments: 'ls -l' },
    ];

    expect(toolCallsDiff([one], [other])).toEqual([
      { call: other, change: 'changed', changes: [{ path: '', from: 'ls', to: 'ls -l' }] },
    ]);
  });
});

it('values are compared as deep as both are objects', () => {
  expect(valueChanges({ a: { b: 1, c: [1] }, 'x/y': 1 }, { a: { b: 2, c: [1, 2] } })).toEqual([
    { path: '/a/b', from: 1, to: 2 },
    { path: '/a/c', from: [1], to: [1, 2] },
    { path: '/x~1y', from: 1, to: undefined },
  ]);
});
