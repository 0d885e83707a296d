/** Badges and bars of evaluations: scores, states, progress and intervals. */
import { Check, CircleSlash, TriangleAlert, X } from 'lucide-react';
import type { ReactNode } from 'react';
import { CollapsibleSection } from '@/components/collapsible';
import { JsonView } from '@/components/json-view';
import { Badge } from '@/components/status';
import { LongText } from '@/components/text';
import { cn } from '@/lib/cn';
import { safeProse } from '@/lib/safe-text';
import { formatScore, STATES, isActive, type State, formatFigure, formatInterval, type Figure } from './format';
import type { ScoreView } from './queries';

const SCORE_CLASSES = {
  passed: 'bg-good-soft text-good',
  failed: 'bg-bad-soft text-bad',
  plain: 'bg-sunken text-ink',
  skipped: 'bg-sunken text-faint',
  error: 'bg-warn-soft text-warn',
};
const SCORE_ICONS = {
  passed: <Check aria-hidden />,
  failed: <X aria-hidden />,
  plain: null,
  skipped: <CircleSlash aria-hidden />,
  error: <TriangleAlert aria-hidden />,
};
const SCORE_LABELS = {
  passed: 'passed',
  failed: 'failed',
  plain: 'scored',
  skipped: 'not scored',
  error: 'evaluator error',
};

type Kind = keyof typeof SCORE_CLASSES;

export function scoreKind({ status, passed }: Pick<ScoreView, 'status' | 'passed'>): Kind {
  if (status !== 'scored') return status;
  if (passed === null || passed === undefined) return 'plain';
  return passed ? 'passed' : 'failed';
}

/** The number or label of a score; empty if it only repeats whether it passed. */
function formatScoreValue({ status, passed, score, label }: ScoreView): string {
  if (status !== 'scored') return '';
  const number =
    score === null || score === undefined || (typeof passed === 'boolean' && score === Number(passed))
      ? ''
      : formatScore(score);
  return [label ?? '', number].filter(Boolean).join(' ');
}

/** `showName`: show the evaluator's name; otherwise it is in the accessible name and tooltip. */
export function ScoreBadge({ score, showName = false }: { score: ScoreView; showName?: boolean }): ReactNode {
  const kind = scoreKind(score);
  const text = formatScoreValue(score);
  const title = [`${score.evaluator}: ${SCORE_LABELS[kind]}`, text, score.reason].filter(Boolean).join(', ');
  return (
    <span
      title={title}
      className={cn(
        'inline-flex h-5 max-w-full min-w-0 items-center gap-1 rounded-full px-1.5',
        'text-xs font-medium tabular-nums [&>svg]:size-3.5 [&>svg]:shrink-0',
        SCORE_CLASSES[kind],
      )}
    >
      {SCORE_ICONS[kind]}
      {showName ? (
        <span className="truncate" dir="auto">
          {safeProse(score.evaluator)}
        </span>
      ) : (
        <span className="sr-only">{safeProse(score.evaluator)}: </span>
      )}
      <span className="sr-only">{SCORE_LABELS[kind]}</span>
      {text && (
        <span className="max-w-32 truncate" dir="auto">
          {safeProse(text)}
        </span>
      )}
    </span>
  );
}

/** Longer details are collapsed. */
const MAX_INLINE_DETAILS = 4;

/** A score with reason and details. Details of turns are shown with the turns, so they are collapsed here. */
export function ScoreCard({ score }: { score: ScoreView }): ReactNode {
  const details = score.details ?? {};
  const count = Object.keys(details).length;
  return (
    <section aria-label={`Score ${score.evaluator}`} className="min-w-0 rounded-xl border bg-surface px-3 py-2">
      <div className="flex min-w-0 flex-wrap items-center gap-x-2 gap-y-1">
        <bdi className="min-w-0 font-medium wrap-anywhere">{safeProse(score.evaluator)}</bdi>
        <ScoreBadge score={score} />
        <span className="text-[13px] text-muted">{SCORE_LABELS[scoreKind(score)]}</span>
      </div>
      {score.reason && (
        <p dir="auto" className="mt-1 text-[13px] wrap-anywhere whitespace-pre-wrap text-muted">
          <LongText text={score.reason} />
        </p>
      )}
      {count > 0 && (
        <div className="mt-1">
          <CollapsibleSection title="Details" open={count <= MAX_INLINE_DETAILS && !Object.hasOwn(details, 'turns')}>
            <JsonView value={details} openLevels={2} />
          </CollapsibleSection>
        </div>
      )}
    </section>
  );
}

export const StateBadge = ({ state, reason }: { state: State; reason: { message: string } | null }): ReactNode => (
  <Badge tone={STATES[state].tone} {...(reason ? { title: reason.message } : {})}>
    {STATES[state].label}
  </Badge>
);

interface BarProps {
  state: State;
  done: number;
  failed: number;
  total: number;
}

/** Completed and failed cells. */
export function ProgressBar({ state, done, failed, total }: BarProps): ReactNode {
  const percent = (number: number): number => (total > 0 ? (number / total) * 100 : 0);
  return (
    <span
      role="progressbar"
      aria-label="Finished cells"
      aria-valuemin={0}
      aria-valuemax={total}
      aria-valuenow={done + failed}
      className="block h-1.5 w-full overflow-hidden rounded-full bg-sunken"
    >
      <svg aria-hidden viewBox="0 0 100 6" preserveAspectRatio="none" className="block size-full">
        <rect x={0} y={0} width={percent(done)} height={6} className={isActive(state) ? 'fill-accent' : 'fill-good'} />
        <rect x={percent(done)} y={0} width={percent(failed)} height={6} className="fill-bad" />
      </svg>
    </span>
  );
}

const BAR_WIDTH = 100;
const BAR_HEIGHT = 16;
const RATE_SCALE: readonly [number, number] = [0, 1];

/** `scale`: minimum and maximum of the bar. Rates are between 0 and 1, scores can be anything. */
export function IntervalBar({
  figure,
  scale = RATE_SCALE,
  className = 'h-4 w-24',
}: {
  figure: Figure;
  scale?: readonly [number, number];
  className?: string;
}): ReactNode {
  const [min, max] = scale;
  const toX = (value: number): number =>
    Math.max(0, Math.min(BAR_WIDTH, ((value - min) / (max - min || 1)) * BAR_WIDTH));
  const middle = BAR_HEIGHT / 2;
  const zeroX = toX(0);
  const valueX = toX(figure.value);
  return (
    <svg
      role="img"
      aria-label={`${formatFigure(figure)}, ${formatInterval(figure)}`}
      viewBox={`0 0 ${BAR_WIDTH} ${BAR_HEIGHT}`}
      preserveAspectRatio="none"
      className={`block shrink-0 overflow-visible ${className}`}
    >
      <title>{formatInterval(figure)}</title>
      <rect x={0} y={middle - 3} width={BAR_WIDTH} height={6} rx={2} className="fill-sunken" />
      <rect
        x={Math.min(zeroX, valueX)}
        y={middle - 3}
        width={Math.abs(valueX - zeroX)}
        height={6}
        rx={2}
        className="fill-accent/60"
      />
      {figure.interval && (
        <g className="stroke-ink" strokeWidth={1.5} vectorEffect="non-scaling-stroke">
          <Line x1={toX(figure.interval[0])} x2={toX(figure.interval[1])} y1={middle} y2={middle} />
          <Line x1={toX(figure.interval[0])} x2={toX(figure.interval[0])} y1={middle - 5} y2={middle + 5} />
          <Line x1={toX(figure.interval[1])} x2={toX(figure.interval[1])} y1={middle - 5} y2={middle + 5} />
        </g>
      )}
    </svg>
  );
}

/** A line whose width does not scale with the drawing. */
const Line = (line: { x1: number; x2: number; y1: number; y2: number }): ReactNode => (
  <line {...line} vectorEffect="non-scaling-stroke" />
);

/** Common scale of an evaluator's bars: 0 to 1, or the range of its scores. */
export function intervalScale(figures: readonly (Figure | null)[]): readonly [number, number] {
  const endpoints = figures.flatMap((figure) => (figure ? [figure.value, ...(figure.interval ?? [])] : []));
  return [Math.min(0, ...endpoints), Math.max(1, ...endpoints)];
}
