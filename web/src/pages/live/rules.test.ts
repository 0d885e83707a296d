import { expect, test } from 'vitest';
import { formatFilter, formatSample, evaluatorTotals } from './rules';

test('formats a filter as a sentence, or as JSON if the form cannot express it', () => {
  expect(formatFilter(null)).toBe('All traces');
  expect(formatFilter({ field: 'status', op: 'eq', value: 'error' })).toBe('Status is error');
  expect(
    formatFilter({
      or: [
        { field: 'model', op: 'in', value: ['a', 'b'] },
        { attribute: 'http.route', op: 'exists' },
      ],
    }),
  ).toBe('Model is one of a, b or http.route exists');
  expect(formatFilter({ and: [{ or: [] }] })).toBe('{"and":[{"or":[]}]}');
});

test('formats a sample as a percentage with up to three digits', () => {
  expect([1, 0.1, 0.005, 0.333].map(formatSample)).toEqual(['100%', '10%', '0.5%', '33.3%']);
});

test('totals the days by evaluator, weighted by the number of scores', () => {
  const day = { at: '2026-11-01T00:00:00Z', skipped: 0, errors: 0, cost: null };
  expect(
    evaluatorTotals([
      { ...day, evaluator: 'refusal', n: 3, passed: 3, pass_rate: 1, mean: 1, skipped: 2 },
      { ...day, evaluator: 'words', n: 2, passed: 0, pass_rate: null, mean: 0.5 },
      { ...day, evaluator: 'refusal', n: 1, passed: 0, pass_rate: 0, mean: 0, errors: 1 },
    ]),
  ).toEqual([
    { evaluator: 'refusal', n: 4, passRate: 0.75, mean: 0.75, skipped: 2, errors: 1 },
    { evaluator: 'words', n: 2, passRate: null, mean: 0.5, skipped: 0, errors: 0 },
  ]);
});
