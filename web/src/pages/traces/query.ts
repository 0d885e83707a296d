/**
 * Query of the traces page: rows, search, time and conditions. Stored in the URL and in saved views, both untrusted:
 * invalid parts are ignored.
 */
import { useCallback, useMemo } from 'react';
import { useSearchParams } from 'wouter';
import { OPS, takesList, takesValue, conditionField, type Op } from './conditions';

export const RANGES = {
  '1h': 'Last hour',
  '24h': 'Last day',
  '7d': 'Last 7 days',
  '30d': 'Last 30 days',
  all: 'All time',
  custom: 'Custom',
} as const;
export type RelativeRange = keyof typeof RANGES;

export interface Condition {
  of: 'field' | 'attribute';
  name: string;
  op: Op;
  /** As typed; its meaning depends on the field. */
  value: string;
}

export interface TraceQuery {
  rows: 'traces' | 'spans';
  search: string;
  range: RelativeRange;
  /** RFC 3339, for a custom range; null is unbounded. */
  from: string | null;
  to: string | null;
  /** Whether any condition suffices, instead of all. */
  any: boolean;
  conditions: readonly Condition[];
}

export const EMPTY_QUERY: TraceQuery = {
  rows: 'traces',
  search: '',
  range: '7d',
  from: null,
  to: null,
  any: false,
  conditions: [],
};

const HOUR = 3_600_000;
const RANGE_LENGTHS_MS: Partial<Record<RelativeRange, number>> = {
  '1h': HOUR,
  '24h': 24 * HOUR,
  '7d': 7 * 24 * HOUR,
  '30d': 30 * 24 * HOUR,
};
const MAX_CONDITIONS = 25;
const MAX_SEARCH_LENGTH = 1000;
const MAX_NAME_LENGTH = 512;
const MAX_VALUE_LENGTH = 2000;

// URL

export function parseTraceQuery(given: URLSearchParams): TraceQuery {
  return validateQuery({
    rows: given.get('rows'),
    search: given.get('q'),
    range: given.get('range') ?? (given.has('from') || given.has('to') ? 'custom' : null),
    from: given.get('from'),
    to: given.get('to'),
    any: given.get('any') === '1',
    conditions: given.getAll('f').map(parseCondition),
  });
}

/** URL parameters; defaults are left out. */
export function traceQueryParams(query: TraceQuery): URLSearchParams {
  const made = new URLSearchParams();
  if (query.rows !== EMPTY_QUERY.rows) made.set('rows', query.rows);
  if (query.search) made.set('q', query.search);
  if (query.range === 'custom') {
    if (query.from) made.set('from', query.from);
    if (query.to) made.set('to', query.to);
  } else if (query.range !== EMPTY_QUERY.range) made.set('range', query.range);
  if (query.any && query.conditions.length > 1) made.set('any', '1');
  for (const condition of query.conditions) made.append('f', encodeCondition(condition));
  return made;
}

/** `status~eq~error`, `@http.route~exists`: everything after the second ~ is the value. */
function encodeCondition({ of, name, op, value }: Condition): string {
  const safe = name.replaceAll('%', '%25').replaceAll('~', '%7E');
  return `${of === 'attribute' ? '@' : ''}${safe}~${op}${takesValue(op) ? `~${value}` : ''}`;
}

function parseCondition(text: string): unknown {
  const [, at, name = '', op, value = ''] = /^(@?)([^~]*)~(\w+)(?:~(.*))?$/s.exec(text) ?? [];
  return { of: at ? 'attribute' : 'field', name: name.replaceAll('%7E', '~').replaceAll('%25', '%'), op, value };
}

// Saved views

export const viewBody = (query: TraceQuery): Record<string, unknown> => ({
  ...query,
  conditions: query.conditions.map((one) => ({ ...one })),
});

export const parseView = (body: Record<string, unknown>): TraceQuery => validateQuery(body);

export const isSameQuery = (one: TraceQuery, other: TraceQuery): boolean =>
  String(traceQueryParams(one)) === String(traceQueryParams(other));

function validateQuery(given: Record<string, unknown>): TraceQuery {
  const { rows, search, range, from, to, any, conditions } = given;
  const read = {
    rows: rows === 'spans' ? ('spans' as const) : ('traces' as const),
    search: typeof search === 'string' ? search.slice(0, MAX_SEARCH_LENGTH) : '',
    any: any === true,
    conditions: Array.isArray(conditions) ? conditions.flatMap(validateCondition).slice(0, MAX_CONDITIONS) : [],
  };
  const begin = parseTime(from);
  const end = parseTime(to);
  if (range === 'custom' && (begin || end)) return { ...read, range, from: begin, to: end };
  const known = typeof range === 'string' && range !== 'custom' && Object.hasOwn(RANGES, range);
  return { ...read, range: known ? (range as RelativeRange) : EMPTY_QUERY.range, from: null, to: null };
}

function validateCondition(given: unknown): Condition[] {
  if (typeof given !== 'object' || given === null) return [];
  const { of, name, op, value } = given as Record<string, unknown>;
  if (typeof name !== 'string' || name === '' || name.length > MAX_NAME_LENGTH) return [];
  const known = OPS.find((one) => one === op);
  if (!known) return [];
  const text = typeof value === 'string' && takesValue(known) ? value.slice(0, MAX_VALUE_LENGTH) : '';
  return [{ of: of === 'attribute' ? 'attribute' : 'field', name, op: known, value: text }];
}

const parseTime = (given: unknown): string | null => {
  const at = typeof given === 'string' ? Date.parse(given) : Number.NaN;
  return Number.isNaN(at) ? null : new Date(at).toISOString();
};

// API

export interface TimeBounds {
  from: string | null;
  to: string | null;
}

/** Absolute time bounds. */
export function timeBounds({ range, from, to }: TraceQuery, now: number): TimeBounds {
  const length = RANGE_LENGTHS_MS[range];
  if (length !== undefined) return { from: new Date(now - length).toISOString(), to: null };
  return range === 'custom' ? { from, to } : { from: null, to: null };
}

/** The filter for the API. */
export function queryFilter({ any, conditions }: TraceQuery): unknown {
  const leaves = conditions.map(conditionFilter);
  if (leaves.length < 2) return leaves[0] ?? null;
  return any ? { or: leaves } : { and: leaves };
}

function conditionFilter({ of, name, op, value }: Condition): unknown {
  if (!takesValue(op)) return { [of]: name, op };
  const texts = takesList(op) ? splitList(value) : [value.trim()];
  if (of === 'attribute') return attributeFilter(name, op, texts);
  const type = conditionField(name)?.type;
  const values = texts.map((text) => (type === 'number' ? (parseNumber(text) ?? text) : text));
  return { field: name, op, value: takesList(op) ? values : values[0] };
}

/** The type of an attribute is unknown: 200 matches the number and the text. */
function attributeFilter(name: string, op: Op, texts: readonly string[]): unknown {
  if (op === 'contains' || op === 'starts_with') return { attribute: name, op, value: texts[0] };
  if (op !== 'eq' && op !== 'ne' && !takesList(op))
    return { attribute: name, op, value: parseNumber(texts[0] ?? '') ?? texts[0] };
  const values = texts.flatMap((text) => [
    text,
    ...[parseNumber(text) ?? parseBoolean(text)].filter((one) => one !== undefined),
  ]);
  const several = op === 'eq' || op === 'in' ? 'in' : 'not_in';
  return values.length === 1 && !takesList(op)
    ? { attribute: name, op, value: values[0] }
    : { attribute: name, op: several, value: values };
}

/** Comma-separated. */
export const splitList = (value: string): string[] => {
  const several = value
    .split(',')
    .map((one) => one.trim())
    .filter(Boolean);
  return several.length > 0 ? several : [''];
};

export const parseNumber = (text: string): number | undefined => {
  const read = text.trim() === '' ? Number.NaN : Number(text);
  return Number.isFinite(read) ? read : undefined;
};

const parseBoolean = (text: string): boolean | undefined =>
  text === 'true' ? true : text === 'false' ? false : undefined;

export interface TraceQueryState {
  query: TraceQuery;
  /** Last chosen saved view, even if the query changed since. */
  view: string | null;
  /** `replace`: adds no history entry, as while typing. */
  setQuery: (query: TraceQuery, options?: { view?: string | null; replace?: boolean }) => void;
}

export function useTraceQuery(): TraceQueryState {
  const [params, setParams] = useSearchParams();
  const text = String(params);
  const query = useMemo(() => parseTraceQuery(new URLSearchParams(text)), [text]);
  const view = params.get('view');
  const setQuery = useCallback<TraceQueryState['setQuery']>(
    (next, { view: chosen = view, replace = false } = {}) => {
      const made = traceQueryParams(next);
      if (chosen) made.set('view', chosen);
      setParams(made, { replace });
    },
    [view, setParams],
  );
  return { query, view, setQuery };
}
