/** Scatter plot of rows: score in the base against score in the candidate. */
import { useQueries } from '@tanstack/react-query';
import { useMemo, useState, type KeyboardEvent, type ReactNode } from 'react';
import { useLocation } from 'wouter';
import { ErrorMessage, Spinner } from '@/components/status';
import { cn } from '@/lib/cn';
import { pluralize } from '@/lib/format';
import { safeProse } from '@/lib/safe-text';
import { formatScore } from '@/pages/evaluations/format';
import { comparisonCellsQuery } from '@/pages/evaluations/queries';
import { rowChange, pairRows, rowScores, parseSide, type Pair } from './comparison';

const SIZE = 320;
const MARGIN = 28;
/** Minimum distance between points, as a share of the width. */
const POINT_SPACING = 0.024;
const FILLS = { regression: 'fill-bad', fix: 'fill-good', same: 'fill-accent' };

interface Props {
  base: string;
  candidate: string;
  evaluator: string;
  changed: readonly string[];
}

export function Scatter({ base, candidate, evaluator, changed }: Props): ReactNode {
  const [, navigate] = useLocation();
  const { baseCells, otherCells, error } = useQueries({
    queries: [comparisonCellsQuery(base), comparisonCellsQuery(candidate)],
    combine: ([one, other]) => ({ baseCells: one.data, otherCells: other.data, error: one.error ?? other.error }),
  });
  const plot = useMemo(
    () =>
      baseCells && otherCells
        ? layoutPoints(pairRows(rowScores(baseCells.cells, evaluator), rowScores(otherCells.cells, evaluator), changed))
        : null,
    [baseCells, otherCells, evaluator, changed],
  );
  const [active, setActive] = useState<number | null>(null);
  if (error) return <ErrorMessage error={error} />;
  if (!plot) return <Spinner />;
  if (plot.points.length === 0) return <p className="text-muted">No row was scored on both sides.</p>;
  const { points, min, max, padding } = plot;
  const toPixels = (value: number): number =>
    MARGIN + ((value - min + padding) / (max - min + 2 * padding)) * (SIZE - MARGIN - 8);
  const hovered = active === null ? null : points[active];
  const open = (point: Point) => navigate(`/evaluations/${parseSide(candidate).id}?cell=${point.pair.candidate.cell}`);
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (step !== undefined) setActive(active === null ? 0 : (active + step + points.length) % points.length);
    else if (event.key === 'Enter' && hovered) open(hovered);
    else return;
    event.preventDefault();
  };
  return (
    <figure className="min-w-0">
      <div
        role="slider"
        tabIndex={0}
        aria-label={`Base and candidate scores of ${pluralize(points.length, 'row')}. Press Enter to open a row.`}
        aria-valuemin={0}
        aria-valuemax={points.length - 1}
        aria-valuenow={active ?? 0}
        aria-valuetext={
          hovered
            ? `${hovered.pair.base.text}: ${formatScore(hovered.pair.base.score)}, then ` +
              formatScore(hovered.pair.candidate.score)
            : 'No row selected'
        }
        onKeyDown={onKey}
        className="rounded-xl border bg-surface p-2"
      >
        <svg
          viewBox={`0 0 ${SIZE} ${SIZE}`}
          className="block w-full select-none"
          onPointerLeave={() => setActive(null)}
        >
          <Axes min={min} max={max} toPixels={toPixels} />
          {points.map((point, index) => (
            // oxlint-disable-next-line jsx-a11y/click-events-have-key-events -- the figure has the keys
            <circle
              key={point.pair.row}
              data-row={point.pair.row}
              cx={toPixels(point.x)}
              cy={SIZE - toPixels(point.y)}
              r={index === active ? 7 : 4.5}
              className={cn(
                FILLS[rowChange(point.pair)],
                'cursor-pointer',
                index === active ? 'opacity-100' : 'opacity-60',
              )}
              onPointerEnter={() => setActive(index)}
              onClick={() => open(point)}
            />
          ))}
        </svg>
        <figcaption aria-live="polite" className="min-h-10 px-1 text-[13px] text-muted">
          {hovered ? (
            <>
              <span dir="auto" className="line-clamp-2 wrap-anywhere text-ink">
                {safeProse(hovered.pair.base.text) || hovered.pair.row}
              </span>
              <span className="tabular-nums">
                {formatScore(hovered.pair.base.score)} → {formatScore(hovered.pair.candidate.score)}
              </span>
            </>
          ) : (
            <span className="flex flex-wrap gap-x-3 text-xs">
              <LegendItem fill="bg-bad" label="Regressed" />
              <LegendItem fill="bg-good" label="Fixed" />
              <LegendItem fill="bg-accent" label="Unchanged" />
              {!(baseCells?.isAll && otherCells?.isAll) && (
                <span>First {points.length.toLocaleString('en')} rows only</span>
              )}
            </span>
          )}
        </figcaption>
      </div>
    </figure>
  );
}

/** Both axes with their extremes, and the diagonal of equal scores. */
function Axes({ min, max, toPixels }: { min: number; max: number; toPixels: (value: number) => number }): ReactNode {
  return (
    <>
      <line
        x1={toPixels(min)}
        y1={SIZE - toPixels(min)}
        x2={toPixels(max)}
        y2={SIZE - toPixels(max)}
        className="stroke-strong-line"
        strokeDasharray="4 4"
      />
      <line x1={MARGIN} y1={SIZE - MARGIN} x2={SIZE - 8} y2={SIZE - MARGIN} className="stroke-line" />
      <line x1={MARGIN} y1={8} x2={MARGIN} y2={SIZE - MARGIN} className="stroke-line" />
      <g className="fill-faint text-[11px]">
        <text x={toPixels(min)} y={SIZE - 10} textAnchor="middle">
          {formatScore(min)}
        </text>
        <text x={toPixels(max)} y={SIZE - 10} textAnchor="middle">
          {formatScore(max)}
        </text>
        <text x={(SIZE + MARGIN) / 2} y={SIZE - 10} textAnchor="middle">
          base
        </text>
        <text x={MARGIN - 6} y={SIZE - toPixels(max) + 4} textAnchor="end">
          {formatScore(max)}
        </text>
        <text x={MARGIN - 6} y={SIZE - toPixels(min) + 4} textAnchor="end">
          {formatScore(min)}
        </text>
        <text x={14} y={(SIZE - MARGIN) / 2} textAnchor="middle" transform={`rotate(-90 14 ${(SIZE - MARGIN) / 2})`}>
          candidate
        </text>
      </g>
    </>
  );
}

const LegendItem = ({ fill, label }: { fill: string; label: string }): ReactNode => (
  <span className="flex items-center gap-1">
    <span aria-hidden className={cn('size-2 rounded-full', fill)} />
    {label}
  </span>
);

interface Point {
  pair: Pair;
  x: number;
  y: number;
}

/** Rows with equal scores are arranged in a spiral, so that each is visible. */
function layoutPoints(pairs: readonly Pair[]): { points: Point[]; min: number; max: number; padding: number } {
  const values = pairs.flatMap(({ base, candidate }) => [base.score, candidate.score]);
  const min = values.reduce((one, other) => Math.min(one, other), 0);
  const max = values.reduce((one, other) => Math.max(one, other), 1);
  const padding = (max - min) * 0.08;
  const key = ({ base, candidate }: Pair): string => `${base.score.toFixed(3)} ${candidate.score.toFixed(3)}`;
  const totals = new Map<string, number>();
  for (const pair of pairs) totals.set(key(pair), (totals.get(key(pair)) ?? 0) + 1);
  const usedCounts = new Map<string, number>();
  const points = pairs.map((pair) => {
    const index = usedCounts.get(key(pair)) ?? 0;
    usedCounts.set(key(pair), index + 1);
    const spacing = Math.min((max - min) * POINT_SPACING, padding / Math.sqrt(totals.get(key(pair)) ?? 1));
    const radius = Math.sqrt(index) * spacing;
    const angle = index * 2.4;
    return { pair, x: pair.base.score + radius * Math.cos(angle), y: pair.candidate.score + radius * Math.sin(angle) };
  });
  return { points, min, max, padding };
}
