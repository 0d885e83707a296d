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

test('formats a recent time as now, also if the server clock runs ahead', () => {
  expect(formatAge('2026-11-15T11:59:30Z', NOW)).toBe('now');
  expect(formatAge('2026-11-15T12:00:05Z', NOW)).toBe('now');
});

test('formats an age in full minutes, hours or days', () => {
  expect(formatAge('2026-11-15T11:54:10Z', NOW)).toBe('5 min');
  expect(formatAge('2026-11-15T09:00:00Z', NOW)).toBe('3 h');
  expect(formatAge('2026-11-13T11:00:00Z', NOW)).toBe('2 d');
});

test('formats an age of more than a week as a date, with the year if it differs', () => {
  expect(formatAge('2026-11-01T12:00:00Z', NOW)).toBe('Nov 1');
  expect(formatAge('2025-11-01T12:00:00Z', NOW)).toBe('Nov 1, 2025');
});

test('formats an invalid time as an empty string', () => {
  expect(formatAge('soon', NOW)).toBe('');
});

test('formats an age for use in a sentence', () => {
  expect(formatTimeAgo('2026-11-15T11:59:30Z', NOW)).toBe('just now');
  expect(formatTimeAgo('2026-11-15T11:54:10Z', NOW)).toBe('5 min ago');
  expect(formatTimeAgo('2026-11-01T12:00:00Z', NOW)).toBe('on Nov 1');
});

it('formats dollars with as many digits as needed', () => {
  expect([0, 0.000_000_1, 0.000_012_3, 0.0012, 0.05, 3.2].map(formatDollars)).toEqual([
    '$0',
    '<$0.000001',
    '$0.000012',
    '$0.0012',
    '$0.05',
    '$3.20',
  ]);
});

it('pluralizes a counted noun', () => {
  expect([pluralize(1, 'trace'), pluralize(1200, 'trace')]).toEqual(['1 trace', '1,200 traces']);
});

test('formats bytes in the largest unit that they fill', () => {
  expect([0, 512, 8192, 1536, 20_971_520, 10_737_418_240].map(formatBytes)).toEqual([
    '0 bytes',
    '512 bytes',
    '8 KiB',
    '1.5 KiB',
    '20 MiB',
    '10 GiB',
  ]);
});

test('formats elapsed seconds in their two largest units', () => {
  expect([0.4, 59, 61, 3600, 90_061].map(formatElapsed)).toEqual(['0 s', '59 s', '1 min 1 s', '1 h', '1 d 1 h']);
});

test('formats a limit in the unit that its name implies', () => {
  expect(formatLimit('max_body', 8_388_608)).toBe('8 MiB');
  expect(formatLimit('run_seconds', 600)).toBe('600 s');
  expect(formatLimit('run_events', 200_000)).toBe('200,000');
});

test('formats any setting value on one line', () => {
  expect([null, '', 'x', ['a'], { b: 1 }].map(formatSettingValue)).toEqual([
    'null',
    '(empty)',
    'x',
    '["a"]',
    '{"b":1}',
  ]);
});

test('returns the time a number of days from now, or null for never', () => {
  expect(daysFromNow(30, Date.parse('2026-11-15T12:00:00Z'))).toBe('2026-12-15T12:00:00.000Z');
  expect(daysFromNow(null)).toBeNull();
});
