import { expect, it } from 'vitest';
import { fromField, toField } from './local-time';

it('a time goes into a field and comes out as the same', () => {
  expect(fromField(toField('2026-11-14T10:05:00.000Z'))).toBe('2026-11-14T10:05:00.000Z');
  expect(toField('2026-11-14T10:05:00.000Z')).toMatch(/^2026-11-1\dT\d\d:\d5$/);
});

it('no time is an empty field', () => {
  expect([toField(null), toField('nonsense'), fromField(''), fromField('nonsense')]).toEqual(['', '', null, null]);
});
