/** Formatting of scores, intervals and states. */
import type { Schemas } from '@/api/client';

export type State = Schemas['EvaluationRow']['state'];
export type Interval = readonly [number, number];
type Tone = 'plain' | 'accent' | 'good' | 'bad' | 'warn';

export const STATES: Readonly<Record<State, { label: string; tone: Tone }>> = {
  queued: { label: 'Queued', tone: 'plain' },
  running: { label: 'Running', tone: 'accent' },
  succeeded: { label: 'Succeeded', tone: 'good' },
  partly: { label: 'Partial', tone: 'warn' },
  failed: { label: 'Failed', tone: 'bad' },
  cancelled: { label: 'Cancelled', tone: 'plain' },
};

export const isActive = (state: State): boolean => state === 'queued' || state === 'running';

/** 82.8%; no decimals for whole numbers: 100% */
export function formatPercent(fraction: number): string {
  const tenths = Math.round(fraction * 1000) / 10;
  return `${Number.isInteger(tenths) ? tenths : tenths.toFixed(1)}%`;
}

/** −3.9 points, +2 points */
export function formatPoints(difference: number): string {
  const tenths = Math.round(Math.abs(difference) * 1000) / 10;
  return `${tenths === 0 ? '±' : difference < 0 ? '−' : '+'}${tenths} points`;
}

/** 0.83; a score is mostly from 0 to 1, but an author's may be anything. */
export function formatScore(value: number): string {
  if (Number.isInteger(value)) return value.toLocaleString('en');
  return Math.abs(value) < 1000
    ? String(Number(value.toFixed(3)))
    : value.toLocaleString('en', { maximumFractionDigits: 0 });
}

/** Change of a score with its sign. */
export const formatChange = (difference: number): string =>
  difference < 0 ? `−${formatScore(-difference)}` : `+${formatScore(difference)}`;

/** Figure of one evaluator: pass rate, or mean score where nothing can pass. */
export interface Figure {
  kind: 'pass rate' | 'mean';
  value: number;
  interval: Interval | null;
}

type SummaryFigures = Pick<Schemas['SliceSummary'], 'pass_rate' | 'pass_ci' | 'mean' | 'mean_ci'>;

export function evaluatorFigure({
  pass_rate: passRate,
  pass_ci: passInterval,
  mean,
  mean_ci: meanInterval,
}: SummaryFigures): Figure | null {
  if (passRate !== null) return { kind: 'pass rate', value: passRate, interval: passInterval };
  return mean === null ? null : { kind: 'mean', value: mean, interval: meanInterval };
}

export const formatFigure = ({ kind, value }: Figure): string =>
  kind === 'pass rate' ? formatPercent(value) : formatScore(value);

/** "95% CI 75.3% to 88.4%" */
export function formatInterval({ kind, interval }: Figure): string {
  if (!interval) return '';
  const format = kind === 'pass rate' ? formatPercent : formatScore;
  return `95% CI ${format(interval[0])} to ${format(interval[1])}`;
}

/** Rough remaining time: 12 s, 5 min, 2 h. */
export function formatTimeLeft(seconds: number): string {
  if (seconds < 1) return 'less than 1 s';
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.round(seconds / 60)} min`;
  return `${Number((seconds / 3600).toFixed(1))} h`;
}

/** Cells per second, or per minute if slow. */
export const formatPace = (rate: number): string =>
  rate >= 1 ? `${Math.round(rate * 10) / 10} per second` : `${Math.round(rate * 600) / 10} per minute`;

/** The name, or else the test set. */
export const evaluationTitle = ({ name, testset }: { name: string; testset: { name: string } }): string =>
  name || `${testset.name} (unnamed)`;
