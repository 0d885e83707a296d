// @vitest-environment happy-dom
import { expect, it } from 'vitest';
import { changedRange } from './text-editor';

it.each([
  ['get(v1) x', 'get(v2) x', { from: 5, to: 6, insert: '2' }],
  ['aa', 'aaa', { from: 2, to: 2, insert: 'a' }],
  ['aaa', 'aa', { from: 2, to: 3, insert: '' }],
  ['', 'abc', { from: 0, to: 0, insert: 'abc' }],
  ['abc', '', { from: 0, to: 3, insert: '' }],
  ['abc', 'xyz', { from: 0, to: 3, insert: 'xyz' }],
])('%o to %o is one piece', (before, now, change) => {
  expect(changedRange(before, now)).toEqual(change);
  expect(before.slice(0, change.from) + change.insert + before.slice(change.to)).toBe(now);
});
