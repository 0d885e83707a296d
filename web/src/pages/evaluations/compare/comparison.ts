/** Row-by-row comparison of two evaluations. */
import type { Schemas } from '@/api/client';
import { pluralize } from '@/lib/format';
import { formatChange, formatPercent, formatPoints, formatScore } from '@/pages/evaluations/format';
import type { ResultRow } from '@/pages/evaluations/queries';

export type EvaluatorComparison = Schemas['EvaluatorComparison'];

/** A row of one side: mean over its repeats. */
export interface RowScore {
  /** Its first cell, for the link. */
  cell: string;
  score: number;
  /** Share of repeats that passed; null if unknown. */
  passed: number | null;
  text: string;
}

export interface Pair {
  row: string;
  base: RowScore;
  candidate: RowScore;
}

/** Scores of one evaluator by row. Cells without an answer count as 0, as in all figures. */
export function rowScores(rows: readonly ResultRow[], evaluator: string): Map<string, RowScore> {
  const cells = new Map<string, { cell: string; scores: number[]; passes: number[]; text: string }>();
  for (const row of rows) {
    const score = row.scores.find(({ evaluator: name }) => name === evaluator);
    const entry = cells.get(row.row) ?? { cell: row.id, scores: [], passes: [], text: rowText(row) };
    if (row.status === 'failed') {
      entry.scores.push(0);
      entry.passes.push(0);
    } else if (score?.status === 'scored') {
      const { passed, score: value } = score;
      if (typeof passed === 'boolean') entry.passes.push(Number(passed));
      if (typeof value === 'number') entry.scores.push(value);
      else if (typeof passed === 'boolean') entry.scores.push(Number(passed));
    }
    cells.set(row.row, entry);
  }
  const scoredRows = [...cells].flatMap(([row, { cell, scores, passes, text }]) =>
    scores.length > 0
      ? [[row, { cell, text, score: mean(scores), passed: passes.length > 0 ? mean(passes) : null }] as const]
      : [],
  );
  return new Map(scoredRows);
}

const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

function rowText({ in: input }: ResultRow): string {
  const text = typeof input === 'object' && input !== null && 'text' in input ? input.text : '';
  return typeof text === 'string' ? text : '';
}

/** Rows of both sides, except those whose content changed. */
export function pairRows(
  base: ReadonlyMap<string, RowScore>,
  candidate: ReadonlyMap<string, RowScore>,
  changed: readonly string[],
): Pair[] {
  const excludedRows = new Set(changed);
  return [...base].flatMap(([row, baseScore]) => {
    const candidateScore = candidate.get(row);
    return candidateScore && !excludedRows.has(row) ? [{ row, base: baseScore, candidate: candidateScore }] : [];
  });
}

/** Majority over repeats. */
const isPass = ({ passed }: RowScore): boolean => (passed ?? 0) > 0.5;

export type RowChange = 'regression' | 'fix' | 'same';

export function rowChange({ base, candidate }: Pair): RowChange {
  if (base.passed === null || candidate.passed === null || isPass(base) === isPass(candidate)) return 'same';
  return isPass(base) ? 'regression' : 'fix';
}

/** The result in one sentence. */
export function verdict(comparison: EvaluatorComparison): string {
  const { measure, difference, base, candidate, paired: pairedCount } = comparison;
  if (difference === null || base === null || candidate === null) return 'No row was scored on both sides.';
  const [subject, format, formatDifference] =
    measure === 'pass_rate'
      ? (['Pass rate', formatPercent, formatPoints] as const)
      : (['Mean score', formatScore, formatChange] as const);
  const detail = `(${formatDifference(difference)}, ${pluralize(pairedCount, 'row')})`;
  const change = `from ${format(base)} to ${format(candidate)} ${detail}`;
  switch (comparison.verdict) {
    case 'worse':
      return `${subject} fell ${change}.`;
    case 'better':
      return `${subject} rose ${change}.`;
    case 'same':
      return `No meaningful change: ${format(base)} → ${format(candidate)} ${detail}.`;
    case 'unclear':
      return `Unclear: ${format(base)} → ${format(candidate)} ${detail}. ${neededRowsText(comparison)}`;
  }
}

function neededRowsText({ cases_needed: cases, paired: pairedCount }: EvaluatorComparison): string {
  if (cases === null) return 'No difference so far, so the number of rows needed can’t be estimated.';
  return cases > pairedCount
    ? `About ${cases.toLocaleString('en')} rows like these would settle it.`
    : 'A few more rows would settle it.';
}

/** Parse `ev_2a:base`. */
export function parseSide(side: string): { id: string; variant: string | null } {
  const colon = side.indexOf(':');
  return colon < 0 ? { id: side, variant: null } : { id: side.slice(0, colon), variant: side.slice(colon + 1) };
}
