/** What the traces that are asked for came to, over time: how many, how long, how many tokens, how dear. */
import { useQuery } from '@tanstack/react-query';
import { useMemo, useState, type ReactNode } from 'react';
import { classes } from '@/lib/class-names';
import { formatCompactNumber, pluralize, formatDollars } from '@/lib/format';
import { lasted } from '@/trace/time';
import { Button } from '@/components/button';
import type { Asked } from './asked';
import { buckets, narrowed, when, type Bucket, type Stat, type Step } from './buckets';
import { Plot } from './plot';
import { stats } from './queries';

/** Counting all of a time costs more than a page of rows: while live it is done so often, in milliseconds. */
const AGAIN = 10_000;

export function Plots({ asked, live, onChange }: { asked: Asked; live: boolean; onChange: (asked: Asked) => void }): ReactNode {
  const { data, error, refetch, isFetching } = useQuery({ ...stats(asked), refetchInterval: live ? AGAIN : false, placeholderData: (before) => before });
  const shown = useMemo(() => (data ? buckets(data.data, data.time, data.by, data.now) : []), [data]);
  if (error) {
    return (
      <p className="flex items-center gap-2 px-4 pb-2 text-xs text-muted">
        The plots cannot be drawn: {error.message}
        <Button size="small" look="quiet" onClick={() => void refetch()}>Retry</Button>
      </p>
    );
  }
  return (
    <div className={classes('grid min-h-37 grid-cols-2 gap-x-6 gap-y-3 px-4 pb-3 @4xl:min-h-22 @4xl:grid-cols-4', isFetching && !data && 'animate-pulse')}>
      {data && <Pictures shown={shown} step={data.by} onChoose={(some) => onChange(narrowed(asked, some))} />}
    </div>
  );
}

function Pictures({ shown, step, onChoose }: { shown: readonly Bucket[]; step: Step; onChoose: (some: readonly Bucket[]) => void }): ReactNode {
  const [at, setAt] = useState<number | null>(null);
  const of = (pick: (stat: Stat) => number): number[] => shown.map(({ stat }) => (stat ? pick(stat) : 0));
  const all = (pick: (stat: Stat) => number): number => of(pick).reduce((sum, value) => sum + value, 0);
  const read = (words: (stat: Stat) => string) => (place: number): string => {
    const bucket = shown[place];
    return bucket ? `${when(bucket, step)} · ${bucket.stat ? words(bucket.stat) : 'none'}` : '';
  };
  const common = { steps: shown.length, at: at !== null && at < shown.length ? at : null, onAt: setAt, onChoose: (first: number, last: number) => onChoose(shown.slice(first, last + 1)) };
  const failed = all(({ errors }) => errors);
  const errors = (number: number): string => (number > 0 ? `, ${pluralize(number, 'error')}` : '');
  return (
    <>
      <Plot
        {...common}
        title="Traces"
        total={`${all(({ traces }) => traces).toLocaleString('en')}${errors(failed)}`}
        read={read((stat) => `${stat.traces.toLocaleString('en')}${errors(stat.errors)}`)}
        parts={[
          { values: of((stat) => stat.errors), fill: 'fill-bad' },
          { values: of((stat) => stat.traces - stat.errors), fill: 'fill-accent' },
        ]}
      />
      <Plot
        {...common}
        title="Latency"
        total={slowest(shown)}
        read={read((stat) => `p50 ${lasted(stat.p50_ms)}, p95 ${lasted(stat.p95_ms)}`)}
        parts={[
          { values: of((stat) => stat.p50_ms), fill: 'fill-accent' },
          { values: of((stat) => Math.max(0, stat.p95_ms - stat.p50_ms)), fill: 'fill-accent/35' },
        ]}
      />
      <Plot
        {...common}
        title="Tokens"
        total={formatCompactNumber(all((stat) => stat.input_tokens + stat.output_tokens))}
        read={read((stat) => `${formatCompactNumber(stat.input_tokens)} in, ${formatCompactNumber(stat.output_tokens)} out`)}
        parts={[
          { values: of((stat) => stat.input_tokens), fill: 'fill-accent/35' },
          { values: of((stat) => stat.output_tokens), fill: 'fill-accent' },
        ]}
      />
      <Plot {...common} title="Cost" total={formatDollars(all(({ cost }) => cost))} read={read(({ cost }) => formatDollars(cost))} parts={[{ values: of(({ cost }) => cost), fill: 'fill-accent' }]} />
    </>
  );
}

/** Percentiles do not add up: the worst step is told. */
function slowest(shown: readonly Bucket[]): string {
  const worst = Math.max(-1, ...shown.map(({ stat }) => stat?.p95_ms ?? -1));
  return worst < 0 ? '–' : `p95 up to ${lasted(worst)}`;
}
