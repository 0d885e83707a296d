/** Charts of the queried traces over time: count, duration, tokens, cost. */
import { useQuery } from '@tanstack/react-query';
import { useMemo, useState, type ReactNode, useRef, type KeyboardEvent, type PointerEvent } from 'react';
import { Button } from '@/components/button';
import { cn } from '@/lib/cn';
import { formatCompactNumber, pluralize, formatDollars } from '@/lib/format';
import { formatMilliseconds } from './detail/timeline';
import { traceStatsQuery } from './queries';
import {
  timeBuckets,
  narrowToBuckets,
  formatBucketTime,
  type TimeBucket,
  type StatRow,
  type BucketSize,
} from './time-buckets';
import type { TraceQuery } from './trace-query';

/** Statistics are expensive; while live they are refreshed this often. */
const REFRESH_INTERVAL_MS = 10_000;

export function TraceCharts({
  query,
  live,
  onChange,
}: {
  query: TraceQuery;
  live: boolean;
  onChange: (query: TraceQuery) => void;
}): ReactNode {
  const { data, error, refetch, isFetching } = useQuery({
    ...traceStatsQuery(query),
    refetchInterval: live ? REFRESH_INTERVAL_MS : false,
    placeholderData: (before) => before,
  });
  const buckets = useMemo(() => (data ? timeBuckets(data.data, data.time, data.by, data.now) : []), [data]);
  if (error) {
    return (
      <p className="flex items-center gap-2 px-4 pb-2 text-xs text-muted">
        Couldn’t load charts: {error.message}
        <Button size="small" variant="quiet" onClick={() => void refetch()}>
          Retry
        </Button>
      </p>
    );
  }
  return (
    <div
      className={cn(
        'grid min-h-37 grid-cols-2 gap-x-6 gap-y-3 px-4 pb-3 @4xl:min-h-22 @4xl:grid-cols-4',
        isFetching && !data && 'animate-pulse',
      )}
    >
      {data && (
        <Charts buckets={buckets} step={data.by} onChoose={(selected) => onChange(narrowToBuckets(query, selected))} />
      )}
    </div>
  );
}

function Charts({
  buckets,
  step,
  onChoose,
}: {
  buckets: readonly TimeBucket[];
  step: BucketSize;
  onChoose: (selected: readonly TimeBucket[]) => void;
}): ReactNode {
  const [hovered, setHovered] = useState<number | null>(null);
  const valuesOf = (pick: (stat: StatRow) => number): number[] => buckets.map(({ stat }) => (stat ? pick(stat) : 0));
  const sumOf = (pick: (stat: StatRow) => number): number => valuesOf(pick).reduce((sum, value) => sum + value, 0);
  const describe =
    (format: (stat: StatRow) => string) =>
    (index: number): string => {
      const bucket = buckets[index];
      return bucket ? `${formatBucketTime(bucket, step)} · ${bucket.stat ? format(bucket.stat) : 'none'}` : '';
    };
  const sharedProps = {
    count: buckets.length,
    hovered: hovered !== null && hovered < buckets.length ? hovered : null,
    onHover: setHovered,
    onChoose: (first: number, last: number) => onChoose(buckets.slice(first, last + 1)),
  };
  const errorCount = sumOf(({ errors }) => errors);
  const errorSuffix = (number: number): string => (number > 0 ? `, ${pluralize(number, 'error')}` : '');
  return (
    <>
      <BarChart
        {...sharedProps}
        title="Traces"
        total={`${sumOf(({ traces }) => traces).toLocaleString('en')}${errorSuffix(errorCount)}`}
        describe={describe((stat) => `${stat.traces.toLocaleString('en')}${errorSuffix(stat.errors)}`)}
        series={[
          { values: valuesOf((stat) => stat.errors), fill: 'fill-bad' },
          { values: valuesOf((stat) => stat.traces - stat.errors), fill: 'fill-accent' },
        ]}
      />
      <BarChart
        {...sharedProps}
        title="Latency"
        total={slowestBucket(buckets)}
        describe={describe((stat) => `p50 ${formatMilliseconds(stat.p50_ms)}, p95 ${formatMilliseconds(stat.p95_ms)}`)}
        series={[
          { values: valuesOf((stat) => stat.p50_ms), fill: 'fill-accent' },
          { values: valuesOf((stat) => Math.max(0, stat.p95_ms - stat.p50_ms)), fill: 'fill-accent/35' },
        ]}
      />
      <BarChart
        {...sharedProps}
        title="Tokens"
        total={formatCompactNumber(sumOf((stat) => stat.input_tokens + stat.output_tokens))}
        describe={describe(
          (stat) => `${formatCompactNumber(stat.input_tokens)} in, ${formatCompactNumber(stat.output_tokens)} out`,
        )}
        series={[
          { values: valuesOf((stat) => stat.input_tokens), fill: 'fill-accent/35' },
          { values: valuesOf((stat) => stat.output_tokens), fill: 'fill-accent' },
        ]}
      />
      <BarChart
        {...sharedProps}
        title="Cost"
        total={formatDollars(sumOf(({ cost }) => cost))}
        describe={describe(({ cost }) => formatDollars(cost))}
        series={[{ values: valuesOf(({ cost }) => cost), fill: 'fill-accent' }]}
      />
    </>
  );
}

/** Percentiles cannot be added: show the worst bucket. */
function slowestBucket(buckets: readonly TimeBucket[]): string {
  const worst = Math.max(-1, ...buckets.map(({ stat }) => stat?.p95_ms ?? -1));
  return worst < 0 ? '–' : `p95 ≤ ${formatMilliseconds(worst)}`;
}

export interface ChartSeries {
  /** One value for each bucket. */
  values: readonly number[];
  /** Tailwind class of the fill. */
  fill: string;
}

interface Props {
  title: string;
  /** Text of the total. `describe` returns the text of one bucket. */
  total: string;
  describe: (index: number) => string;
  series: readonly ChartSeries[];
  count: number;
  /** Hovered bucket, shared by all charts. */
  hovered: number | null;
  onHover: (index: number | null) => void;
  onChoose: (first: number, last: number) => void;
}

const CHART_HEIGHT = 100;

export function BarChart({ title, total, describe, series, count, hovered, onHover, onChoose }: Props): ReactNode {
  const [from, setFrom] = useState<number | null>(null);
  const container = useRef<HTMLDivElement>(null);
  const highest = Math.max(...bucketSums(series, count), 0);
  const stepAt = (event: PointerEvent): number => {
    const { left, width } = container.current?.getBoundingClientRect() ?? { left: 0, width: 1 };
    return Math.max(0, Math.min(count - 1, Math.floor(((event.clientX - left) / width) * count)));
  };
  const choose = (event: PointerEvent) => {
    if (from === null) return;
    const to = stepAt(event);
    setFrom(null);
    onChoose(Math.min(from, to), Math.max(from, to));
  };
  const onKey = (event: KeyboardEvent) => {
    const current = hovered ?? count - 1;
    const to = { ArrowLeft: current - 1, ArrowRight: current + 1, Home: 0, End: count - 1 }[event.key];
    if (to !== undefined) onHover(Math.max(0, Math.min(count - 1, to)));
    else if (event.key === 'Enter' && hovered !== null) onChoose(hovered, hovered);
    else if (event.key === 'Escape') onHover(null);
    else return;
    event.preventDefault();
  };
  const selection =
    from === null || hovered === null ? null : { first: Math.min(from, hovered), last: Math.max(from, hovered) };
  return (
    <figure className="min-w-0">
      <figcaption className="flex items-baseline justify-between gap-2 text-xs">
        <span className="shrink-0 text-muted">{title}</span>
        <span className={cn('truncate tabular-nums', hovered === null ? 'font-medium text-ink' : 'text-ink')}>
          {hovered === null ? total : describe(hovered)}
        </span>
      </figcaption>
      <div
        ref={container}
        role="slider"
        tabIndex={0}
        aria-label={`${title} over time`}
        aria-valuemin={0}
        aria-valuemax={Math.max(0, count - 1)}
        aria-valuenow={hovered ?? count - 1}
        aria-valuetext={hovered === null ? total : describe(hovered)}
        className="mt-1 h-10 @4xl:h-14 cursor-crosshair touch-pan-y rounded border-b select-none"
        onKeyDown={onKey}
        onBlur={() => onHover(null)}
        onPointerMove={(event) => onHover(stepAt(event))}
        onPointerLeave={() => onHover(null)}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          setFrom(stepAt(event));
        }}
        onPointerUp={choose}
        onPointerCancel={() => setFrom(null)}
      >
        <svg
          aria-hidden
          viewBox={`0 0 ${Math.max(1, count)} ${CHART_HEIGHT}`}
          preserveAspectRatio="none"
          className="block size-full overflow-visible"
        >
          {selection && (
            <rect
              x={selection.first}
              y={0}
              width={selection.last - selection.first + 1}
              height={CHART_HEIGHT}
              className="fill-accent-soft"
            />
          )}
          {hovered !== null && !selection && (
            <rect x={hovered} y={0} width={1} height={CHART_HEIGHT} className="fill-sunken" />
          )}
          <Bars series={series} count={count} max={highest} />
        </svg>
      </div>
    </figure>
  );
}

/** Stacked bars. */
function Bars({ series, count, max }: { series: readonly ChartSeries[]; count: number; max: number }): ReactNode {
  if (max === 0) return null;
  const gap = count > 60 ? 0.08 : 0.12;
  return Array.from({ length: count }, (_, step) => {
    let below = 0;
    return series.map(({ values, fill }, part) => {
      const value = values[step] ?? 0;
      if (value <= 0) return null;
      // Non-zero values of the first series are always visible.
      const barHeight = Math.max(part === 0 ? 2 : 0, (value / max) * CHART_HEIGHT);
      below += barHeight;
      return (
        <rect
          // oxlint-disable-next-line react/no-array-index-key -- series have no name
          key={`${step} ${part}`}
          x={step + gap}
          y={CHART_HEIGHT - below}
          width={1 - 2 * gap}
          height={barHeight}
          className={fill}
        />
      );
    });
  });
}

function bucketSums(series: readonly ChartSeries[], count: number): number[] {
  return Array.from({ length: count }, (_, step) => series.reduce((sum, { values }) => sum + (values[step] ?? 0), 0));
}
