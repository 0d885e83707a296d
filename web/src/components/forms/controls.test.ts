// @vitest-environment happy-dom
import { expect, it } from 'vitest';
import { withLineEndsOf, withLineFeeds } from './controls';
import { changedRange } from './text-editor';

it('converts all line ends to line feeds for the editor', () => {
  expect(withLineFeeds('a\r\nb\rc\nd')).toBe('a\nb\nc\nd');
});

it('restores the most common line end of the original text', () => {
  expect(withLineEndsOf('a\r\nb\r\n', 'a\nc\n')).toBe('a\r\nc\r\n');
  expect(withLineEndsOf('a\r\nb\n', 'a\nc\n')).toBe('a\nc\n');
  expect(withLineEndsOf('', 'a\n')).toBe('a\n');
});

it.each([
  ['get(v1) x', 'get(v2) x', { from: 5, to: 6, insert: '2' }],
  ['aa', 'aaa', { from: 2, to: 2, insert: 'a' }],
  ['aaa', 'aa', { from: 2, to: 3, insert: '' }],
  ['', 'abc', { from: 0, to: 0, insert: 'abc' }],
  ['abc', '', { from: 0, to: 3, insert: '' }],
  ['abc', 'xyz', { from: 0, to: 3, insert: 'xyz' }],
])('describes the change from %o to %o as one replacement', (before, now, change) => {
  expect(changedRange(before, now)).toEqual(change);
  expect(before.slice(0, change.from) + change.insert + before.slice(change.to)).toBe(now);
});
