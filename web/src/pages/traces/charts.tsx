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
        The plots cannot be drawn: {error.message}
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
  const [at, setAt] = useState<number | null>(null);
  const of = (pick: (stat: StatRow) => number): number[] => buckets.map(({ stat }) => (stat ? pick(stat) : 0));
  const all = (pick: (stat: StatRow) => number): number => of(pick).reduce((sum, value) => sum + value, 0);
  const read =
    (words: (stat: StatRow) => string) =>
    (index: number): string => {
      const bucket = buckets[index];
      return bucket ? `${formatBucketTime(bucket, step)} · ${bucket.stat ? words(bucket.stat) : 'none'}` : '';
    };
  const common = {
    steps: buckets.length,
    at: at !== null && at < buckets.length ? at : null,
    onAt: setAt,
    onChoose: (first: number, last: number) => onChoose(buckets.slice(first, last + 1)),
  };
  const failed = all(({ errors }) => errors);
  const errors = (number: number): string => (number > 0 ? `, ${pluralize(number, 'error')}` : '');
  return (
    <>
      <BarChart
        {...common}
        title="Traces"
        total={`${all(({ traces }) => traces).toLocaleString('en')}${errors(failed)}`}
        read={read((stat) => `${stat.traces.toLocaleString('en')}${errors(stat.errors)}`)}
        parts={[
          { values: of((stat) => stat.errors), fill: 'fill-bad' },
          { values: of((stat) => stat.traces - stat.errors), fill: 'fill-accent' },
        ]}
      />
      <BarChart
        {...common}
        title="Latency"
        total={slowestBucket(buckets)}
        read={read((stat) => `p50 ${formatMilliseconds(stat.p50_ms)}, p95 ${formatMilliseconds(stat.p95_ms)}`)}
        parts={[
          { values: of((stat) => stat.p50_ms), fill: 'fill-accent' },
          { values: of((stat) => Math.max(0, stat.p95_ms - stat.p50_ms)), fill: 'fill-accent/35' },
        ]}
      />
      <BarChart
        {...common}
        title="Tokens"
        total={formatCompactNumber(all((stat) => stat.input_tokens + stat.output_tokens))}
        read={read(
          (stat) => `${formatCompactNumber(stat.input_tokens)} in, ${formatCompactNumber(stat.output_tokens)} out`,
        )}
        parts={[
          { values: of((stat) => stat.input_tokens), fill: 'fill-accent/35' },
          { values: of((stat) => stat.output_tokens), fill: 'fill-accent' },
        ]}
      />
      <BarChart
        {...common}
        title="Cost"
        total={formatDollars(all(({ cost }) => cost))}
        read={read(({ cost }) => formatDollars(cost))}
        parts={[{ values: of(({ cost }) => cost), fill: 'fill-accent' }]}
      />
    </>
  );
}

/** Percentiles cannot be added: show the worst bucket. */
function slowestBucket(buckets: readonly TimeBucket[]): string {
  const worst = Math.max(-1, ...buckets.map(({ stat }) => stat?.p95_ms ?? -1));
  return worst < 0 ? '–' : `p95 up to ${formatMilliseconds(worst)}`;
}

export interface ChartSeries {
  /** One for each bucket. */
  values: readonly number[];
  /** Tailwind class of the fill. */
  fill: string;
}

interface Props {
  title: string;
  /** Total, and text of one bucket. */
  total: string;
  read: (index: number) => string;
  parts: readonly ChartSeries[];
  steps: number;
  /** Hovered bucket, shared by all charts. */
  at: number | null;
  onAt: (index: number | null) => void;
  onChoose: (first: number, last: number) => void;
}

const CHART_HEIGHT = 100;

export function BarChart({ title, total, read, parts, steps, at, onAt, onChoose }: Props): ReactNode {
  const [from, setFrom] = useState<number | null>(null);
  const container = useRef<HTMLDivElement>(null);
  const highest = Math.max(...bucketSums(parts, steps), 0);
  const stepAt = (event: PointerEvent): number => {
    const { left, width } = container.current?.getBoundingClientRect() ?? { left: 0, width: 1 };
    return Math.max(0, Math.min(steps - 1, Math.floor(((event.clientX - left) / width) * steps)));
  };
  const choose = (event: PointerEvent) => {
    if (from === null) return;
    const to = stepAt(event);
    setFrom(null);
    onChoose(Math.min(from, to), Math.max(from, to));
  };
  const onKey = (event: KeyboardEvent) => {
    const here = at ?? steps - 1;
    const to = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: steps - 1 }[event.key];
    if (to !== undefined) onAt(Math.max(0, Math.min(steps - 1, to)));
    else if (event.key === 'Enter' && at !== null) onChoose(at, at);
    else if (event.key === 'Escape') onAt(null);
    else return;
    event.preventDefault();
  };
  const selection = from === null || at === null ? null : { first: Math.min(from, at), last: Math.max(from, at) };
  return (
    <figure className="min-w-0">
      <figcaption className="flex items-baseline justify-between gap-2 text-xs">
        <span className="shrink-0 text-muted">{title}</span>
        <span className={cn('truncate tabular-nums', at === null ? 'font-medium text-ink' : 'text-ink')}>
          {at === null ? total : read(at)}
        </span>
      </figcaption>
      <div
        ref={container}
        role="slider"
        tabIndex={0}
        aria-label={`${title} over time`}
        aria-valuemin={0}
        aria-valuemax={Math.max(0, steps - 1)}
        aria-valuenow={at ?? steps - 1}
        aria-valuetext={at === null ? total : read(at)}
        className="mt-1 h-10 @4xl:h-14 cursor-crosshair touch-pan-y rounded border-b select-none"
        onKeyDown={onKey}
        onBlur={() => onAt(null)}
        onPointerMove={(event) => onAt(stepAt(event))}
        onPointerLeave={() => onAt(null)}
        onPointerDown={(event) => {
          event.currentTarget.setPointerCapture(event.pointerId);
          setFrom(stepAt(event));
        }}
        onPointerUp={choose}
        onPointerCancel={() => setFrom(null)}
      >
        <svg
          aria-hidden
          viewBox={`0 0 ${Math.max(1, steps)} ${CHART_HEIGHT}`}
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
          {at !== null && !selection && <rect x={at} y={0} width={1} height={CHART_HEIGHT} className="fill-sunken" />}
          <Bars parts={parts} steps={steps} highest={highest} />
        </svg>
      </div>
    </figure>
  );
}

/** Stacked bars. */
function Bars({ parts, steps, highest }: { parts: readonly ChartSeries[]; steps: number; highest: number }): ReactNode {
  if (highest === 0) return null;
  const gap = steps > 60 ? 0.08 : 0.12;
  return Array.from({ length: steps }, (_, step) => {
    let below = 0;
    return parts.map(({ values, fill }, part) => {
      const value = values[step] ?? 0;
      if (value <= 0) return null;
      // At least one pixel for non-zero values.
      const barHeight = Math.max(part === 0 ? 2 : 0, (value / highest) * CHART_HEIGHT);
      below += barHeight;
      return (
        <rect
          // oxlint-disable-next-line react/no-array-index-key -- parts have no other name
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

function bucketSums(parts: readonly ChartSeries[], steps: number): number[] {
  return Array.from({ length: steps }, (_, step) => parts.reduce((sum, { values }) => sum + (values[step] ?? 0), 0));
}
