/** A figure as a short bar from 0, with whiskers where it may as well be: an interval of 95 %. */
import type { ReactNode } from 'react';
import { figureWords, intervalWords, type Figure } from './words';

const WIDE = 100;
const TALL = 16;
const RATE: readonly [number, number] = [0, 1];

/** `scale`: the least and the most that the bar shows. Scores may be anything; rates lie between 0 and 1. */
export function IntervalBar({ figure, scale = RATE, className = 'h-4 w-24' }: { figure: Figure; scale?: readonly [number, number]; className?: string }): ReactNode {
  const [least, most] = scale;
  const at = (value: number): number => Math.max(0, Math.min(WIDE, ((value - least) / (most - least || 1)) * WIDE));
  const middle = TALL / 2;
  const zero = at(0);
  const value = at(figure.value);
  return (
    <svg
      role="img"
      aria-label={`${figureWords(figure)}, ${intervalWords(figure)}`}
      viewBox={`0 0 ${WIDE} ${TALL}`}
      preserveAspectRatio="none"
      className={`block shrink-0 overflow-visible ${className}`}
    >
      <title>{intervalWords(figure)}</title>
      <rect x={0} y={middle - 3} width={WIDE} height={6} rx={2} className="fill-sunken" />
      <rect x={Math.min(zero, value)} y={middle - 3} width={Math.abs(value - zero)} height={6} rx={2} className="fill-accent/60" />
      {figure.interval && (
        <g className="stroke-ink" strokeWidth={1.5} vectorEffect="non-scaling-stroke">
          <Line x1={at(figure.interval[0])} x2={at(figure.interval[1])} y1={middle} y2={middle} />
          <Line x1={at(figure.interval[0])} x2={at(figure.interval[0])} y1={middle - 5} y2={middle + 5} />
          <Line x1={at(figure.interval[1])} x2={at(figure.interval[1])} y1={middle - 5} y2={middle + 5} />
        </g>
      )}
    </svg>
  );
}

/** As thick as it is meant, however the picture is stretched. */
const Line = (ends: { x1: number; x2: number; y1: number; y2: number }): ReactNode => <line {...ends} vectorEffect="non-scaling-stroke" />;

/** What all bars of one evaluator share: 0 to 1, or as far as its scores go. */
export function scaleOf(figures: readonly (Figure | null)[]): readonly [number, number] {
  const ends = figures.flatMap((figure) => (figure ? [figure.value, ...(figure.interval ?? [])] : []));
  return [Math.min(0, ...ends), Math.max(1, ...ends)];
}
