import { expect, it } from 'vitest';
import { withLineEndsOf, withLineFeeds } from './controls';

it('an editor sees line feeds alone', () => {
  expect(withLineFeeds('a\r\nb\rc\nd')).toBe('a\nb\nc\nd');
});

it('what was edited has the line ends that most lines had before', () => {
  expect(withLineEndsOf('a\r\nb\r\n', 'a\nc\n')).toBe('a\r\nc\r\n');
  expect(withLineEndsOf('a\r\nb\n', 'a\nc\n')).toBe('a\nc\n');
  expect(withLineEndsOf('', 'a\n')).toBe('a\n');
});
