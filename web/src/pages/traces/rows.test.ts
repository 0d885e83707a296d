import { describe, expect, it } from 'vitest';
import { absorbRows, rowPath, rowId, refreshRows, type TraceRow, type RowPage } from './rows';

const TIME = { from: null, to: null };
const row = (name: string, second: number, more: Partial<TraceRow> = {}): TraceRow => ({
  trace_id: name,
  span_id: `s${name}`,
  parent_id: null,
  name,
  kind: 'llm',
  status: 'ok',
  start: `2026-11-15T07:20:${String(second).padStart(2, '0')}.000000Z`,
  duration_ms: 1,
  workflow: null,
  session: null,
  user: null,
  model: null,
  provider: null,
  service: null,
  run_id: null,
  input_tokens: null,
  output_tokens: null,
  cost: null,
  in: null,
  out: null,
  spans: 1,
  errors: 0,
  ...more,
});
const page = (next: string | null, ...data: TraceRow[]): RowPage => ({ data, next, time: TIME });
const names = (pages: readonly RowPage[]): string[][] => pages.map(({ data }) => data.map(({ name }) => name));

describe('new rows', () => {
  const pages = [page('2', row('e', 50), row('d', 40)), page('3', row('c', 30), row('b', 20))];

  it('are added before older rows', () => {
    const result = absorbRows(pages, page('x', row('g', 59), row('f', 55), row('e', 50)));

    expect([names(result.pages), result.added, result.replaced]).toEqual([
      [
        ['g', 'f', 'e', 'd'],
        ['c', 'b'],
      ],
      2,
      false,
    ]);
  });

  it('are inserted in order of their start times', () => {
    const result = absorbRows(pages, page('x', row('e', 50), row('late', 45), row('d', 40), row('later', 25)));

    expect(names(result.pages)).toEqual([
      ['e', 'late', 'd'],
      ['c', 'later', 'b'],
    ]);
  });

  it('update known rows, and leave other pages identical', () => {
    const result = absorbRows(pages, page('x', row('e', 50, { spans: 7 }), row('d', 40)));

    expect(result.pages[0]?.data[0]?.spans).toBe(7);
    expect([result.pages[1], result.added]).toEqual([pages[1], 0]);
    expect(result.pages[1]).toBe(pages[1]);
  });

  it('replace all pages if rows may be missing in between', () => {
    const result = absorbRows(pages, page('x', row('z', 59), row('y', 58)));

    expect([names(result.pages), result.added, result.replaced]).toEqual([[['z', 'y']], 2, true]);
  });

  it('fill an empty table', () => {
    expect(names(absorbRows([page(null)], page(null, row('a', 1))).pages)).toEqual([['a']]);
  });

  it('are left out by a refresh, which only updates known rows', () => {
    const result = refreshRows(pages, page('x', row('g', 59), row('e', 50, { spans: 7 })));

    expect([names(result), result[0]?.data[0]?.spans]).toEqual([
      [
        ['e', 'd'],
        ['c', 'b'],
      ],
      7,
    ]);
  });
});

describe('a row', () => {
  it('links to its trace, or to its span within the trace', () => {
    const { spans: _, errors: __, ...span } = row('a', 1);

    expect([rowPath(row('a', 1)), rowPath(span)]).toEqual(['/traces/a', '/traces/a?span=sa']);
    expect([rowId(row('a', 1)), rowId(span)]).toEqual(['a', 'a/sa']);
  });
});
