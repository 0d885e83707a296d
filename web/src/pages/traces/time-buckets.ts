/** Time buckets of trace statistics, including empty ones. */
import type { Schemas } from '@/api/client';
import type { TraceQuery, TimeBounds } from './trace-query';

export type StatRow = Schemas['StatRow'];
export type BucketSize = 'minute' | 'hour' | 'day';

export interface TimeBucket {
  /** Start and end in milliseconds. */
  start: number;
  end: number;
  stat: StatRow | null;
}

const BUCKET_MS: Record<BucketSize, number> = { minute: 60_000, hour: 3_600_000, day: 86_400_000 };
/** Shows the latest if there are more. */
const MAX_BUCKETS = 400;

export function bucketSize(time: TimeBounds, now: number): BucketSize {
  if (!time.from) return 'day';
  const length = (time.to ? Date.parse(time.to) : now) - Date.parse(time.from);
  if (length <= 3 * BUCKET_MS.hour) return 'minute';
  return length <= 4 * BUCKET_MS.day ? 'hour' : 'day';
}

/** All buckets of a time, earliest first; starts at the first trace if unbounded. */
export function timeBuckets(stats: readonly StatRow[], time: TimeBounds, step: BucketSize, now: number): TimeBucket[] {
  const length = BUCKET_MS[step];
  const statsByTime = new Map(stats.map((stat) => [Date.parse(stat.at), stat]));
  const times = [...statsByTime.keys()];
  const first = time.from ? Date.parse(time.from) : Math.min(now, ...times);
  const last = time.to ? Date.parse(time.to) - 1 : Math.max(now, ...times);
  const lastBucket = Math.floor(last / length);
  const firstBucket = Math.max(Math.floor(first / length), lastBucket - MAX_BUCKETS + 1);
  return Array.from({ length: Math.max(0, lastBucket - firstBucket + 1) }, (_, index) => {
    const start = (firstBucket + index) * length;
    return { start, end: start + length, stat: statsByTime.get(start) ?? null };
  });
}

/** Query for a range of buckets. */
export function narrowToBuckets(query: TraceQuery, buckets: readonly TimeBucket[]): TraceQuery {
  const [first, last] = [buckets[0], buckets.at(-1)];
  if (!first || !last) return query;
  return { ...query, range: 'custom', from: new Date(first.start).toISOString(), to: new Date(last.end).toISOString() };
}

/** Buckets follow the server's clock; days are UTC. */
export function formatBucketTime({ start }: TimeBucket, step: BucketSize): string {
  if (step === 'day')
    return new Date(start).toLocaleDateString('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });
  return new Date(start).toLocaleString('en-GB', { weekday: 'short', hour: '2-digit', minute: '2-digit' });
}
