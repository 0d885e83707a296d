/**
 * Query of the traces page: rows, search, time and conditions. Stored in the URL and in saved views, both untrusted:
 * invalid parts are ignored.
 */
import { useCallback, useMemo } from 'react';
import { useSearchParams } from 'wouter';

export const RANGES = {
  '1h': 'Last hour',
  '24h': 'Last 24 hours',
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

const HOUR_MS = 3_600_000;
const RANGE_LENGTHS_MS: Partial<Record<RelativeRange, number>> = {
  '1h': HOUR_MS,
  '24h': 24 * HOUR_MS,
  '7d': 7 * 24 * HOUR_MS,
  '30d': 30 * 24 * HOUR_MS,
};
const MAX_CONDITIONS = 25;
const MAX_SEARCH_LENGTH = 1000;
const MAX_NAME_LENGTH = 512;
const MAX_VALUE_LENGTH = 2000;

// URL

export function parseTraceQuery(params: URLSearchParams): TraceQuery {
  return validateQuery({
    rows: params.get('rows'),
    search: params.get('q'),
    range: params.get('range') ?? (params.has('from') || params.has('to') ? 'custom' : null),
    from: params.get('from'),
    to: params.get('to'),
    any: params.get('any') === '1',
    conditions: params.getAll('f').map(parseCondition),
  });
}

/** URL parameters; defaults are left out. */
export function traceQueryParams(query: TraceQuery): URLSearchParams {
  const params = new URLSearchParams();
  if (query.rows !== EMPTY_QUERY.rows) params.set('rows', query.rows);
  if (query.search) params.set('q', query.search);
  if (query.range === 'custom') {
    if (query.from) params.set('from', query.from);
    if (query.to) params.set('to', query.to);
  } else if (query.range !== EMPTY_QUERY.range) params.set('range', query.range);
  if (query.any && query.conditions.length > 1) params.set('any', '1');
  for (const condition of query.conditions) params.append('f', encodeCondition(condition));
  return params;
}

/** `status~eq~error`, `@http.route~exists`: everything after the second ~ is the value. */
function encodeCondition({ of, name, op, value }: Condition): string {
  const safe = name.replaceAll('%', '%25').replaceAll('~', '%7E');
  return `${of === 'attribute' ? '@' : ''}${safe}~${op}${takesValue(op) ? `~${value}` : ''}`;
}

function parseCondition(text: string): unknown {
  const [, mark, name = '', op, value = ''] = /^(@?)([^~]*)~(\w+)(?:~(.*))?$/s.exec(text) ?? [];
  return { of: mark ? 'attribute' : 'field', name: name.replaceAll('%7E', '~').replaceAll('%25', '%'), op, value };
}

// Saved views

export const viewBody = (query: TraceQuery): Record<string, unknown> => ({
  ...query,
  conditions: query.conditions.map((condition) => ({ ...condition })),
});

export const parseView = (body: Record<string, unknown>): TraceQuery => validateQuery(body);

export const isSameQuery = (one: TraceQuery, other: TraceQuery): boolean =>
  String(traceQueryParams(one)) === String(traceQueryParams(other));

function validateQuery(raw: Record<string, unknown>): TraceQuery {
  const { rows, search, range, from, to, any, conditions } = raw;
  const common = {
    rows: rows === 'spans' ? ('spans' as const) : ('traces' as const),
    search: typeof search === 'string' ? search.slice(0, MAX_SEARCH_LENGTH) : '',
    any: any === true,
    conditions: Array.isArray(conditions) ? conditions.flatMap(validateCondition).slice(0, MAX_CONDITIONS) : [],
  };
  const fromTime = parseTime(from);
  const toTime = parseTime(to);
  if (range === 'custom' && (fromTime || toTime)) return { ...common, range, from: fromTime, to: toTime };
  const isRelative = typeof range === 'string' && range !== 'custom' && Object.hasOwn(RANGES, range);
  return { ...common, range: isRelative ? (range as RelativeRange) : EMPTY_QUERY.range, from: null, to: null };
}

function validateCondition(raw: unknown): Condition[] {
  if (typeof raw !== 'object' || raw === null) return [];
  const { of, name, op, value } = raw as Record<string, unknown>;
  if (typeof name !== 'string' || name === '' || name.length > MAX_NAME_LENGTH) return [];
  const knownOp = OPS.find((known) => known === op);
  if (!knownOp) return [];
  const text = typeof value === 'string' && takesValue(knownOp) ? value.slice(0, MAX_VALUE_LENGTH) : '';
  return [{ of: of === 'attribute' ? 'attribute' : 'field', name, op: knownOp, value: text }];
}

const parseTime = (raw: unknown): string | null => {
  const milliseconds = typeof raw === 'string' ? Date.parse(raw) : Number.NaN;
  return Number.isNaN(milliseconds) ? null : new Date(milliseconds).toISOString();
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
  const filters = conditions.map(conditionFilter);
  if (filters.length < 2) return filters[0] ?? null;
  return any ? { or: filters } : { and: filters };
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
    ...[parseNumber(text) ?? parseBoolean(text)].filter((value) => value !== undefined),
  ]);
  const listOp = op === 'eq' || op === 'in' ? 'in' : 'not_in';
  return values.length === 1 && !takesList(op)
    ? { attribute: name, op, value: values[0] }
    : { attribute: name, op: listOp, value: values };
}

/** Split comma-separated values; one empty value if there are none. */
export const splitList = (value: string): string[] => {
  const values = value
    .split(',')
    .map((item) => item.trim())
    .filter(Boolean);
  return values.length > 0 ? values : [''];
};

export const parseNumber = (text: string): number | undefined => {
  const number = text.trim() === '' ? Number.NaN : Number(text);
  return Number.isFinite(number) ? number : undefined;
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
    (next, { view: viewId = view, replace = false } = {}) => {
      const nextParams = traceQueryParams(next);
      if (viewId) nextParams.set('view', viewId);
      setParams(nextParams, { replace });
    },
    [view, setParams],
  );
  return { query, view, setQuery };
}

/** Operators of filter conditions. */
export const OPS = [
  'eq',
  'ne',
  'contains',
  'starts_with',
  'in',
  'not_in',
  'lt',
  'lte',
  'gt',
  'gte',
  'exists',
  'missing',
] as const;
export type Op = (typeof OPS)[number];

export type FieldType = 'choice' | 'text' | 'number' | 'time' | 'any';

export interface ConditionField {
  name: string;
  label: string;
  type: FieldType;
  /** All possible values. */
  choices?: readonly string[];
  /** Unit after a number. */
  unit?: string;
}

export const KINDS = [
  'workflow',
  'agent',
  'llm',
  'tool',
  'retrieval',
  'embedding',
  'rerank',
  'guardrail',
  'evaluator',
  'task',
  'unknown',
] as const;
export const STATUSES = ['ok', 'error', 'cancelled', 'incomplete'] as const;

export const FIELDS: readonly ConditionField[] = [
  { name: 'status', label: 'Status', type: 'choice', choices: STATUSES },
  { name: 'kind', label: 'Kind', type: 'choice', choices: KINDS },
  { name: 'workflow', label: 'Workflow', type: 'text' },
  { name: 'name', label: 'Name', type: 'text' },
  { name: 'model', label: 'Model', type: 'text' },
  { name: 'provider', label: 'Provider', type: 'text' },
  { name: 'session', label: 'Session', type: 'text' },
  { name: 'user', label: 'User', type: 'text' },
  { name: 'duration_ms', label: 'Duration', type: 'number', unit: 'ms' },
  { name: 'usage.input_tokens', label: 'Tokens in', type: 'number' },
  { name: 'usage.output_tokens', label: 'Tokens out', type: 'number' },
  { name: 'cost', label: 'Cost', type: 'number', unit: 'USD' },
  { name: 'cost_source', label: 'Cost source', type: 'choice', choices: ['reported', 'computed'] },
  {
    name: 'finish',
    label: 'Finish reason',
    type: 'choice',
    choices: ['stop', 'length', 'tool-calls', 'content-filter', 'error', 'other'],
  },
  { name: 'tool.name', label: 'Tool', type: 'text' },
  { name: 'exception.type', label: 'Exception', type: 'text' },
  { name: 'status_message', label: 'Status message', type: 'text' },
  { name: 'service', label: 'Service', type: 'text' },
  { name: 'scope', label: 'Scope', type: 'text' },
  { name: 'start', label: 'Start', type: 'time' },
  { name: 'run_id', label: 'Run', type: 'text' },
  { name: 'trace_id', label: 'Trace ID', type: 'text' },
  { name: 'span_id', label: 'Span ID', type: 'text' },
  { name: 'parent_id', label: 'Parent ID', type: 'text' },
];

const FIELDS_BY_NAME = new Map(FIELDS.map((field) => [field.name, field]));

export const conditionField = (name: string): ConditionField | undefined => FIELDS_BY_NAME.get(name);

const OPS_BY_TYPE: Record<FieldType, readonly Op[]> = {
  choice: ['eq', 'ne', 'in', 'not_in', 'exists', 'missing'],
  text: ['eq', 'ne', 'contains', 'starts_with', 'in', 'not_in', 'exists', 'missing'],
  number: ['gt', 'gte', 'lt', 'lte', 'eq', 'ne', 'exists', 'missing'],
  time: ['gte', 'lt'],
  any: ['eq', 'ne', 'contains', 'starts_with', 'in', 'not_in', 'gt', 'gte', 'lt', 'lte', 'exists', 'missing'],
};

/** Attributes may have any type. */
export const fieldOps = (field: ConditionField | undefined): readonly Op[] => OPS_BY_TYPE[field?.type ?? 'any'];

export const takesValue = (op: Op): boolean => op !== 'exists' && op !== 'missing';
export const takesList = (op: Op): boolean => op === 'in' || op === 'not_in';

const OP_LABELS: Record<Op, string> = {
  eq: 'is',
  ne: 'is not',
  contains: 'contains',
  starts_with: 'starts with',
  in: 'is one of',
  not_in: 'is not one of',
  lt: '<',
  lte: '≤',
  gt: '>',
  gte: '≥',
  exists: 'exists',
  missing: 'is missing',
};
const TIME_OP_LABELS: Partial<Record<Op, string>> = { gte: 'from', lt: 'before' };

export const opLabel = (op: Op, type: FieldType = 'any'): string =>
  (type === 'time' ? TIME_OP_LABELS[op] : undefined) ?? OP_LABELS[op];

/** A condition as display text. */
export interface ConditionText {
  subject: string;
  verb: string;
  value: string;
}

export function conditionText({ of, name, op, value }: Condition): ConditionText {
  const field = of === 'field' ? conditionField(name) : undefined;
  const displayValue = field?.type === 'time' && !Number.isNaN(Date.parse(value)) ? formatLocalTime(value) : value;
  return {
    subject: field?.label ?? name,
    verb: opLabel(op, field?.type),
    value: takesValue(op) ? [displayValue || '""', field?.unit].filter(Boolean).join(' ') : '',
  };
}

/** For `<input type="datetime-local">`, in local time; empty without a time. */
export function toInputValue(timestamp: string | null): string {
  const time = timestamp ? new Date(timestamp) : null;
  if (!time || Number.isNaN(time.getTime())) return '';
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** Parse a local time to ISO 8601; null if invalid. */
export function fromInputValue(text: string): string | null {
  const time = text ? new Date(text) : null;
  return time && !Number.isNaN(time.getTime()) ? time.toISOString() : null;
}

/** `14 Nov, 10:00` */
export function formatLocalTime(time: string): string {
  return new Date(time).toLocaleString('en-GB', { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' });
}
