import { expect, test, it } from 'vitest';
import {
  formatAge,
  formatTimeAgo,
  pluralize,
  formatDollars,
  daysFromNow,
  formatBytes,
  formatLimit,
  formatElapsed,
  formatSettingValue,
} from './format';

const NOW = Date.parse('2026-11-15T12:00:00Z');

test('what was a moment ago is now, also when the server clock runs ahead', () => {
  expect(formatAge('2026-11-15T11:59:30Z', NOW)).toBe('now');
  expect(formatAge('2026-11-15T12:00:05Z', NOW)).toBe('now');
});

test('minutes, hours and days are counted in full', () => {
  expect(formatAge('2026-11-15T11:54:10Z', NOW)).toBe('5 min');
  expect(formatAge('2026-11-15T09:00:00Z', NOW)).toBe('3 h');
  expect(formatAge('2026-11-13T11:00:00Z', NOW)).toBe('2 d');
});

test('after a week the day is told, with its year if it is another', () => {
  expect(formatAge('2026-11-01T12:00:00Z', NOW)).toBe('Nov 1');
  expect(formatAge('2025-11-01T12:00:00Z', NOW)).toBe('Nov 1, 2025');
});

test('what is no time is nothing', () => {
  expect(formatAge('soon', NOW)).toBe('');
});

test('inside a sentence it is told with its word', () => {
  expect(formatTimeAgo('2026-11-15T11:59:30Z', NOW)).toBe('just now');
  expect(formatTimeAgo('2026-11-15T11:54:10Z', NOW)).toBe('5 min ago');
  expect(formatTimeAgo('2026-11-01T12:00:00Z', NOW)).toBe('on Nov 1');
});

it('tells what it cost', () => {
  expect([0, 0.000_000_1, 0.000_012_3, 0.0012, 0.05, 3.2].map(formatDollars)).toEqual([
    '$0',
    '<$0.000001',
    '$0.000012',
    '$0.0012',
    '$0.05',
    '$3.20',
  ]);
});

it('counts', () => {
  expect([pluralize(1, 'trace'), pluralize(1200, 'trace')]).toEqual(['1 trace', '1,200 traces']);
});

test('bytes are told in the largest unit that they fill', () => {
  expect([0, 512, 8192, 1536, 20_971_520, 10_737_418_240].map(formatBytes)).toEqual([
    '0 bytes',
    '512 bytes',
    '8 KiB',
    '1.5 KiB',
    '20 MiB',
    '10 GiB',
  ]);
});

test('a time that has passed is told in its two largest units', () => {
  expect([0.4, 59, 61, 3600, 90_061].map(formatElapsed)).toEqual(['0 s', '59 s', '1 min 1 s', '1 h', '1 d 1 h']);
});

test('a limit has the unit that its name tells', () => {
  expect(formatLimit('max_body', 8_388_608)).toBe('8 MiB');
  expect(formatLimit('run_seconds', 600)).toBe('600 s');
  expect(formatLimit('run_events', 200_000)).toBe('200,000');
});

test('a value is one line, whatever it is', () => {
  expect([null, '', 'x', ['a'], { b: 1 }].map(formatSettingValue)).toEqual([
    'null',
    '(empty)',
    'x',
    '["a"]',
    '{"b":1}',
  ]);
});

test('an end is so many days from now, or never', () => {
  expect(daysFromNow(30, Date.parse('2026-11-15T12:00:00Z'))).toBe('2026-12-15T12:00:00.000Z');
  expect(daysFromNow(null)).toBeNull();
});
