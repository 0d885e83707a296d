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
  conditionText,
  fromInputValue,
  toInputValue,
} from './trace-query';

const condition = (name: string, op: Condition['op'], value = '', of: Condition['of'] = 'field'): Condition => ({
  of,
  name,
  op,
  value,
});
const queryWith = (...conditions: Condition[]): TraceQuery => ({ ...EMPTY_QUERY, conditions });

describe('the URL', () => {
  it('is empty for an empty query', () => {
    expect(String(traceQueryParams(EMPTY_QUERY))).toBe('');
    expect(parseTraceQuery(new URLSearchParams(''))).toEqual(EMPTY_QUERY);
  });

  it('contains the whole query and is parsed back to it', () => {
    const query: TraceQuery = {
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

    expect(parseTraceQuery(new URLSearchParams(String(traceQueryParams(query))))).toEqual(query);
  });

  it('is short and readable', () => {
    const query = { ...queryWith(condition('status', 'eq', 'error')), range: '24h' as const };

    expect(decodeURIComponent(String(traceQueryParams(query)))).toBe('range=24h&f=status~eq~error');
  });

  it('may have invalid parameters, which are ignored', () => {
    const params = new URLSearchParams(
      'rows=cats&range=__proto__&from=nonsense&any=2&f=&f=a&f=status~is~x&f=~eq~x&f=kind~eq~llm',
    );

    expect(parseTraceQuery(params)).toEqual(queryWith(condition('kind', 'eq', 'llm')));
  });

  it('with times but no range has a custom range', () => {
    const query = parseTraceQuery(new URLSearchParams('from=2026-11-14T00:00:00Z'));

    expect([query.range, query.from, query.to]).toEqual(['custom', '2026-11-14T00:00:00.000Z', null]);
  });
});

describe('a saved view', () => {
  it('is parsed back to the query that was saved', () => {
    const query = {
      ...queryWith(condition('kind', 'in', 'llm, tool'), condition('a', 'missing', '', 'attribute')),
      search: 'x',
      any: true,
    };

    expect(parseView(JSON.parse(JSON.stringify(viewBody(query))) as Record<string, unknown>)).toEqual(query);
  });

  it('with invalid content is an empty query', () => {
    expect(
      parseView({ conditions: [null, 1, { name: 3 }, { name: 'x', op: 'drop' }], search: 1, range: 'custom' }),
    ).toEqual(EMPTY_QUERY);
  });

  it('equals a query with the same meaning', () => {
    expect(isSameQuery(EMPTY_QUERY, { ...EMPTY_QUERY, any: true })).toBe(true);
    expect(isSameQuery(EMPTY_QUERY, { ...EMPTY_QUERY, search: 'x' })).toBe(false);
  });
});

describe('a filter', () => {
  it('is null, one condition, or all or any of several', () => {
    const leaf = { field: 'status', op: 'eq', value: 'error' };
    const other = { field: 'session', op: 'missing' };
    const twoConditions = queryWith(condition('status', 'eq', 'error'), condition('session', 'missing'));

    expect(queryFilter(EMPTY_QUERY)).toBeNull();
    expect(queryFilter(queryWith(condition('status', 'eq', ' error ')))).toEqual(leaf);
    expect(queryFilter(twoConditions)).toEqual({ and: [leaf, other] });
    expect(queryFilter({ ...twoConditions, any: true })).toEqual({ or: [leaf, other] });
  });

  it('has numbers for numeric fields, and leaves invalid ones for the server to report', () => {
    expect(queryFilter(queryWith(condition('duration_ms', 'gt', '2e3')))).toEqual({
      field: 'duration_ms',
      op: 'gt',
      value: 2000,
    });
    expect(queryFilter(queryWith(condition('cost', 'lt', 'much')))).toEqual({ field: 'cost', op: 'lt', value: 'much' });
  });

  it('splits lists at commas', () => {
    expect(queryFilter(queryWith(condition('kind', 'in', 'llm, tool,')))).toEqual({
      field: 'kind',
      op: 'in',
      value: ['llm', 'tool'],
    });
  });

  it('matches attribute values as texts, numbers and booleans', () => {
    const filterOf = (op: Condition['op'], value: string) =>
      queryFilter(queryWith(condition('a', op, value, 'attribute')));

    expect(filterOf('eq', '200')).toEqual({ attribute: 'a', op: 'in', value: ['200', 200] });
    expect(filterOf('ne', 'true')).toEqual({ attribute: 'a', op: 'not_in', value: ['true', true] });
    expect(filterOf('eq', '/x')).toEqual({ attribute: 'a', op: 'eq', value: '/x' });
    expect(filterOf('in', 'a,1')).toEqual({ attribute: 'a', op: 'in', value: ['a', '1', 1] });
    expect(filterOf('gt', '5')).toEqual({ attribute: 'a', op: 'gt', value: 5 });
    expect(filterOf('contains', '5')).toEqual({ attribute: 'a', op: 'contains', value: '5' });
    expect(filterOf('exists', '5')).toEqual({ attribute: 'a', op: 'exists' });
  });
});

describe('the time range', () => {
  const now = Date.parse('2026-11-16T12:00:00Z');

  it('is open-ended for presets, and has the given bounds if custom', () => {
    expect(timeBounds({ ...EMPTY_QUERY, range: '1h' }, now)).toEqual({ from: '2026-11-16T11:00:00.000Z', to: null });
    expect(timeBounds({ ...EMPTY_QUERY, range: 'all' }, now)).toEqual({ from: null, to: null });
    expect(timeBounds({ ...EMPTY_QUERY, range: 'custom', to: '2026-11-16T00:00:00.000Z' }, now)).toEqual({
      from: null,
      to: '2026-11-16T00:00:00.000Z',
    });
  });
});

const textOf = (name: string, op: Condition['op'], value: string, of: Condition['of'] = 'field') =>
  Object.values(conditionText({ of, name, op, value })).join(' ').trim();

it('formats a condition as a sentence', () => {
  expect(textOf('status', 'ne', 'ok')).toBe('Status is not ok');
  expect(textOf('duration_ms', 'gt', '2000')).toBe('Duration > 2000 ms');
  expect(textOf('status', 'missing', 'x')).toBe('Status is missing');
  expect(textOf('status', 'in', 'x', 'attribute')).toBe('status is one of x');
  expect(textOf('unknown.field', 'eq', '')).toBe('unknown.field is ""');
  expect(textOf('start', 'gte', 'soon')).toBe('Start from soon');
});

it('converts a time to an input value and back', () => {
  expect(fromInputValue(toInputValue('2026-11-14T10:05:00.000Z'))).toBe('2026-11-14T10:05:00.000Z');
  expect(toInputValue('2026-11-14T10:05:00.000Z')).toMatch(/^2026-11-1\dT\d\d:\d5$/);
});

it('converts missing and invalid times to an empty input value, and back to null', () => {
  expect([toInputValue(null), toInputValue('nonsense'), fromInputValue(''), fromInputValue('nonsense')]).toEqual([
    '',
    '',
    null,
    null,
  ]);
});
