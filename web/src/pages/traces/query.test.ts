import { describe, expect, it } from 'vitest';
import {
  EMPTY_QUERY,
  traceQueryParams,
  timeBounds,
  queryFilter,
  isSameQuery,
  parseTraceQuery,
  parseView,
  viewBody,
  type TraceQuery,
  type Condition,
} from './query';

const condition = (name: string, op: Condition['op'], value = '', of: Condition['of'] = 'field'): Condition => ({
  of,
  name,
  op,
  value,
});
const asking = (...conditions: Condition[]): TraceQuery => ({ ...EMPTY_QUERY, conditions });

describe('an address', () => {
  it('is empty when nothing is asked', () => {
    expect(String(traceQueryParams(EMPTY_QUERY))).toBe('');
    expect(parseTraceQuery(new URLSearchParams(''))).toEqual(EMPTY_QUERY);
  });

  it('says all that is asked, and is read again as the same', () => {
    const asked: TraceQuery = {
      rows: 'spans',
      search: 'refund "order 42"',
      range: 'custom',
      from: '2026-11-14T00:00:00.000Z',
      to: '2026-11-15T00:00:00.000Z',
      any: true,
      conditions: [
        condition('status', 'eq', 'error'),
        condition('duration_ms', 'gt', '2000'),
        condition('http.route~a%7Eb', 'contains', '/a~b&c=d%20', 'attribute'),
        condition('session', 'exists'),
        condition('name', 'in', 'a\nb, c'),
      ],
    };

    expect(parseTraceQuery(new URLSearchParams(String(traceQueryParams(asked))))).toEqual(asked);
  });

  it('is as short as a person would write it', () => {
    const asked = { ...asking(condition('status', 'eq', 'error')), range: '24h' as const };

    expect(decodeURIComponent(String(traceQueryParams(asked)))).toBe('range=24h&f=status~eq~error');
  });

  it('may be nonsense, of which what can be understood is left', () => {
    const given = new URLSearchParams(
      'rows=cats&range=__proto__&from=nonsense&any=2&f=&f=a&f=status~is~x&f=~eq~x&f=kind~eq~llm',
    );

    expect(parseTraceQuery(given)).toEqual(asking(condition('kind', 'eq', 'llm')));
  });

  it('with times only is of a custom range', () => {
    const read = parseTraceQuery(new URLSearchParams('from=2026-11-14T00:00:00Z'));

    expect([read.range, read.from, read.to]).toEqual(['custom', '2026-11-14T00:00:00.000Z', null]);
  });
});

describe('a saved view', () => {
  it('is read as what was saved', () => {
    const asked = {
      ...asking(condition('kind', 'in', 'llm, tool'), condition('a', 'missing', '', 'attribute')),
      search: 'x',
      any: true,
    };

    expect(parseView(JSON.parse(JSON.stringify(viewBody(asked))) as Record<string, unknown>)).toEqual(asked);
  });

  it('of anything else asks nothing', () => {
    expect(
      parseView({ conditions: [null, 1, { name: 3 }, { name: 'x', op: 'drop' }], search: 1, range: 'custom' }),
    ).toEqual(EMPTY_QUERY);
  });

  it('is the same as what asks the same', () => {
    expect(isSameQuery(EMPTY_QUERY, { ...EMPTY_QUERY, any: true })).toBe(true);
    expect(isSameQuery(EMPTY_QUERY, { ...EMPTY_QUERY, search: 'x' })).toBe(false);
  });
});

describe('a filter', () => {
  it('is nothing, one condition, all of several or any', () => {
    const leaf = { field: 'status', op: 'eq', value: 'error' };
    const other = { field: 'session', op: 'missing' };
    const two = asking(condition('status', 'eq', 'error'), condition('session', 'missing'));

    expect(queryFilter(EMPTY_QUERY)).toBeNull();
    expect(queryFilter(asking(condition('status', 'eq', ' error ')))).toEqual(leaf);
    expect(queryFilter(two)).toEqual({ and: [leaf, other] });
    expect(queryFilter({ ...two, any: true })).toEqual({ or: [leaf, other] });
  });

  it('has numbers for fields of numbers; what is none the server tells', () => {
    expect(queryFilter(asking(condition('duration_ms', 'gt', '2e3')))).toEqual({
      field: 'duration_ms',
      op: 'gt',
      value: 2000,
    });
    expect(queryFilter(asking(condition('cost', 'lt', 'much')))).toEqual({ field: 'cost', op: 'lt', value: 'much' });
  });

  it('takes lists apart at commas', () => {
    expect(queryFilter(asking(condition('kind', 'in', 'llm, tool,')))).toEqual({
      field: 'kind',
      op: 'in',
      value: ['llm', 'tool'],
    });
  });

  it('means numbers, truths and texts of attributes alike', () => {
    const of = (op: Condition['op'], value: string) => queryFilter(asking(condition('a', op, value, 'attribute')));

    expect(of('eq', '200')).toEqual({ attribute: 'a', op: 'in', value: ['200', 200] });
    expect(of('ne', 'true')).toEqual({ attribute: 'a', op: 'not_in', value: ['true', true] });
    expect(of('eq', '/x')).toEqual({ attribute: 'a', op: 'eq', value: '/x' });
    expect(of('in', 'a,1')).toEqual({ attribute: 'a', op: 'in', value: ['a', '1', 1] });
    expect(of('gt', '5')).toEqual({ attribute: 'a', op: 'gt', value: 5 });
    expect(of('contains', '5')).toEqual({ attribute: 'a', op: 'contains', value: '5' });
    expect(of('exists', '5')).toEqual({ attribute: 'a', op: 'exists' });
  });
});

describe('the time', () => {
  const now = Date.parse('2026-11-16T12:00:00Z');

  it('of a range ends now, and is open', () => {
    expect(timeBounds({ ...EMPTY_QUERY, range: '1h' }, now)).toEqual({ from: '2026-11-16T11:00:00.000Z', to: null });
    expect(timeBounds({ ...EMPTY_QUERY, range: 'all' }, now)).toEqual({ from: null, to: null });
    expect(timeBounds({ ...EMPTY_QUERY, range: 'custom', to: '2026-11-16T00:00:00.000Z' }, now)).toEqual({
      from: null,
      to: '2026-11-16T00:00:00.000Z',
    });
  });
});
