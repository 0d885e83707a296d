import { expect, test } from 'vitest';
import { ago, since } from './ago';

const NOW = Date.parse('2026-11-15T12:00:00Z');

test('what was a moment ago is now, also when the server clock runs ahead', () => {
  expect(ago('2026-11-15T11:59:30Z', NOW)).toBe('now');
  expect(ago('2026-11-15T12:00:05Z', NOW)).toBe('now');
});

test('minutes, hours and days are counted in full', () => {
  expect(ago('2026-11-15T11:54:10Z', NOW)).toBe('5 min');
  expect(ago('2026-11-15T09:00:00Z', NOW)).toBe('3 h');
  expect(ago('2026-11-13T11:00:00Z', NOW)).toBe('2 d');
});

test('after a week the day is told, with its year if it is another', () => {
  expect(ago('2026-11-01T12:00:00Z', NOW)).toBe('Nov 1');
  expect(ago('2025-11-01T12:00:00Z', NOW)).toBe('Nov 1, 2025');
});

test('what is no time is nothing', () => {
  expect(ago('soon', NOW)).toBe('');
});

test('inside a sentence it is told with its word', () => {
  expect(since('2026-11-15T11:59:30Z', NOW)).toBe('just now');
  expect(since('2026-11-15T11:54:10Z', NOW)).toBe('5 min ago');
  expect(since('2026-11-01T12:00:00Z', NOW)).toBe('on Nov 1');
});
