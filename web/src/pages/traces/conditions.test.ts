import { expect, it } from 'vitest';
import { conditionText, fromInputValue, toInputValue } from './conditions';
import type { Condition } from './query';

const told = (name: string, op: Condition['op'], value: string, of: Condition['of'] = 'field') =>
  Object.values(conditionText({ of, name, op, value })).join(' ').trim();

it('reads as a sentence', () => {
  expect(told('status', 'ne', 'ok')).toBe('Status is not ok');
  expect(told('duration_ms', 'gt', '2000')).toBe('Duration > 2000 ms');
  expect(told('status', 'missing', 'x')).toBe('Status is missing');
  expect(told('status', 'in', 'x', 'attribute')).toBe('status is one of x');
  expect(told('unknown.field', 'eq', '')).toBe('unknown.field is ""');
  expect(told('start', 'gte', 'soon')).toBe('Start from soon');
});

it('a time goes into a field and comes out as the same', () => {
  expect(fromInputValue(toInputValue('2026-11-14T10:05:00.000Z'))).toBe('2026-11-14T10:05:00.000Z');
  expect(toInputValue('2026-11-14T10:05:00.000Z')).toMatch(/^2026-11-1\dT\d\d:\d5$/);
});

it('no time is an empty field', () => {
  expect([toInputValue(null), toInputValue('nonsense'), fromInputValue(''), fromInputValue('nonsense')]).toEqual([
    '',
    '',
    null,
    null,
  ]);
});
