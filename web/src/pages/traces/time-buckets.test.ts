import { describe, expect, it } from 'vitest';
import { timeBuckets, narrowToBuckets, bucketSize, type StatRow } from './time-buckets';
import { EMPTY_QUERY } from './trace-query';

const NOW = Date.parse('2026-11-16T12:30:00Z');
const stat = (at: string): StatRow => ({
  at,
  group: null,
  traces: 1,
  errors: 0,
  p50_ms: 1,
  p95_ms: 1,
  input_tokens: 0,
  output_tokens: 0,
  cost: 0,
});
const from = (text: string) => ({ from: text, to: null });

describe('time buckets', () => {
  it('are smaller for shorter time ranges', () => {
    const ranges = [
      from('2026-11-16T11:30:00Z'),
      from('2026-11-15T12:30:00Z'),
      from('2026-11-09T12:30:00Z'),
      { from: null, to: null },
    ];

    expect(ranges.map((time) => bucketSize(time, NOW))).toEqual(['minute', 'hour', 'day', 'day']);
    expect(bucketSize({ from: '2026-01-01T00:00:00Z', to: '2026-01-01T02:00:00Z' }, NOW)).toBe('minute');
  });

  it('include those without traces', () => {
    const buckets = timeBuckets([stat('2026-11-16T11:00:00.000000Z')], from('2026-11-16T10:10:00Z'), 'hour', NOW);

    expect(buckets.map(({ start, stat: row }) => [new Date(start).toISOString(), row?.traces ?? 0])).toEqual([
      ['2026-11-16T10:00:00.000Z', 0],
      ['2026-11-16T11:00:00.000Z', 1],
      ['2026-11-16T12:00:00.000Z', 0],
    ]);
  });

  it('exclude the end of the range, and are empty for a reversed range', () => {
    expect(timeBuckets([], { from: '2026-11-14T00:00:00Z', to: '2026-11-16T00:00:00Z' }, 'day', NOW)).toHaveLength(2);
    expect(timeBuckets([], { from: '2026-11-16T00:00:00Z', to: '2026-11-14T00:00:00Z' }, 'day', NOW)).toEqual([]);
  });

  it('of an unbounded range start at the first trace, at most 400 of them', () => {
    expect(timeBuckets([stat('2026-11-14T00:00:00Z')], { from: null, to: null }, 'day', NOW)).toHaveLength(3);
    expect(timeBuckets([stat('1970-01-01T00:00:00Z')], { from: null, to: null }, 'day', NOW)).toHaveLength(400);
    expect(timeBuckets([], { from: null, to: null }, 'day', NOW)).toHaveLength(1);
  });
});

it('narrows a query to the time range of the selected buckets', () => {
  const all = timeBuckets([], from('2026-11-14T00:00:00Z'), 'day', NOW);

  expect(narrowToBuckets(EMPTY_QUERY, all.slice(0, 2))).toEqual({
    ...EMPTY_QUERY,
    range: 'custom',
    from: '2026-11-14T00:00:00.000Z',
    to: '2026-11-16T00:00:00.000Z',
  });
  expect(narrowToBuckets(EMPTY_QUERY, [])).toBe(EMPTY_QUERY);
});
