import { expect, test } from 'vitest';
import type { ResultRow } from '@/pages/evaluations/queries';
import { rowChange, pairRows, rowScores, parseSide, verdict, type EvaluatorComparison } from './comparison';

const cell = (
  row: string,
  scored: { passed?: boolean | null; score?: number | null } | 'skipped' | 'failed',
  id = `cell_${row}`,
): ResultRow =>
  ({
    id,
    row,
    status: scored === 'failed' ? 'failed' : 'done',
    in: { renderer: 'text', text: `asked ${row}` },
    scores:
      typeof scored === 'string'
        ? scored === 'failed'
          ? []
          : [{ evaluator: 'e', status: 'skipped' }]
        : [{ evaluator: 'e', status: 'scored', ...scored }],
  }) as unknown as ResultRow;

test('scores a row by the mean of its repeats, and a failed call as 0', () => {
  const scores = rowScores(
    [
      cell('a', { passed: true, score: 0.8 }),
      cell('a', { passed: false, score: 0.2 }, 'cell_9'),
      cell('b', 'failed'),
      cell('c', 'skipped'),
      cell('d', { passed: true }),
    ],
    'e',
  );
  expect([...scores]).toEqual([
    ['a', { cell: 'cell_a', text: 'asked a', score: 0.5, passed: 0.5 }],
    ['b', { cell: 'cell_b', text: 'asked b', score: 0, passed: 0 }],
    ['d', { cell: 'cell_d', text: 'asked d', score: 1, passed: 1 }],
  ]);
});

test('pairs the rows of both sides, except changed ones, and finds regressions and fixes', () => {
  const base = rowScores(
    [cell('a', { passed: true }), cell('b', { passed: false }), cell('c', { passed: true }), cell('d', { score: 3 })],
    'e',
  );
  const candidate = rowScores(
    [cell('a', { passed: false }), cell('b', { passed: true }), cell('c', { passed: true }), cell('d', { score: 1 })],
    'e',
  );
  expect(pairRows(base, candidate, ['c']).map((pair) => [pair.row, rowChange(pair)])).toEqual([
    ['a', 'regression'],
    ['b', 'fix'],
    ['d', 'same'],
  ]);
});

test('formats a verdict as a sentence with the number of rows needed', () => {
  const comparison: EvaluatorComparison = {
    name: 'e',
    measure: 'pass_rate',
    paired: 128,
    unpaired: 0,
    base: 0.867,
    candidate: 0.828,
    difference: -0.039,
    ci: [-0.094, 0.016],
    test: 'mcnemar-exact',
    p: 0.267,
    p_adjusted: 0.534,
    verdict: 'unclear',
    regressions: 9,
    fixes: 4,
    cases_needed: 252,
  };
  expect(verdict(comparison)).toBe(
    'Unclear: 86.7% → 82.8% (−3.9 points, 128 rows). About 252 rows like these would settle it.',
  );
  expect(verdict({ ...comparison, cases_needed: null })).toMatch(/No difference so far/);
  expect(verdict({ ...comparison, verdict: 'worse' })).toMatch(/^Pass rate fell from 86\.7% to 82\.8% \(/);
  expect(verdict({ ...comparison, measure: 'mean', verdict: 'better', difference: 0.5 })).toBe(
    'Mean score rose from 0.867 to 0.828 (+0.5, 128 rows).',
  );
  expect(verdict({ ...comparison, difference: null })).toMatch(/^No row was scored on both sides/);
});

test('parses a side into an evaluation and a variant, which may contain a colon', () => {
  expect([parseSide('ev_1:a:b'), parseSide('ev_1')]).toEqual([
    { id: 'ev_1', variant: 'a:b' },
    { id: 'ev_1', variant: null },
  ]);
});
