import { expect, it } from 'vitest';
import { endedAs, withFeeds } from './controls';

it('an editor sees line feeds alone', () => {
  expect(withFeeds('a\r\nb\rc\nd')).toBe('a\nb\nc\nd');
});

it('what was edited has the line ends that most lines had before', () => {
  expect(endedAs('a\r\nb\r\n', 'a\nc\n')).toBe('a\r\nc\r\n');
  expect(endedAs('a\r\nb\n', 'a\nc\n')).toBe('a\nc\n');
  expect(endedAs('', 'a\n')).toBe('a\n');
});
