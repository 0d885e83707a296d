import { expect, it } from 'vitest';
import type { Condition } from './asked';
import { wordsOf } from './condition-words';

const told = (name: string, op: Condition['op'], value: string, of: Condition['of'] = 'field') => Object.values(wordsOf({ of, name, op, value })).join(' ').trim();

it('reads as a sentence', () => {
  expect(told('status', 'ne', 'ok')).toBe('Status is not ok');
  expect(told('duration_ms', 'gt', '2000')).toBe('Duration > 2000 ms');
  expect(told('status', 'missing', 'x')).toBe('Status is missing');
  expect(told('status', 'in', 'x', 'attribute')).toBe('status is one of x');
  expect(told('unknown.field', 'eq', '')).toBe('unknown.field is ""');
  expect(told('start', 'gte', 'soon')).toBe('Start from soon');
});
