/**
 * What the traces page asks for: rows of traces or of spans, words, a time, conditions. It lives in the address, so
 * that a
 * reload, Back and a link show the same, and in saved views. Addresses and views are strangers' texts: what is not
 * understood is left out. Pure.
 */
import { useCallback, useMemo } from 'react';
import { useSearchParams } from 'wouter';
import { OPS, takesList, takesValue, fieldOf, type Op } from './conditions';

export const RANGES = {
  '1h': 'Last hour',
  '24h': 'Last day',
  '7d': 'Last 7 days',
  '30d': 'Last 30 days',
  all: 'All time',
  custom: 'Custom',
} as const;
export type Range = keyof typeof RANGES;

export interface Condition {
  of: 'field' | 'attribute';
  name: string;
  op: Op;
  /** As it was written; what it means depends on the field. */
  value: string;
}

export interface Asked {
  rows: 'traces' | 'spans';
  search: string;
  range: Range;
  /** Of a custom range, RFC 3339; null is without end. */
  from: string | null;
  to: string | null;
  /** Is it enough that any of the conditions holds? */
  any: boolean;
  conditions: readonly Condition[];
}

export const NOTHING: Asked = {
  rows: 'traces',
  search: '',
  range: '7d',
  from: null,
  to: null,
  any: false,
  conditions: [],
};

const HOUR = 3_600_000;
const LENGTHS: Partial<Record<Range, number>> = {
  '1h': HOUR,
  '24h': 24 * HOUR,
  '7d': 7 * 24 * HOUR,
  '30d': 30 * 24 * HOUR,
};
const MOST_CONDITIONS = 25;
const LONGEST_SEARCH = 1000;
const LONGEST_NAME = 512;
const LONGEST_VALUE = 2000;

// Addresses

export function readAddress(given: URLSearchParams): Asked {
  return checked({
    rows: given.get('rows'),
    search: given.get('q'),
    range: given.get('range') ?? (given.has('from') || given.has('to') ? 'custom' : null),
    from: given.get('from'),
    to: given.get('to'),
    any: given.get('any') === '1',
    conditions: given.getAll('f').map(readCondition),
  });
}

/** Only what is not as usual is written. */
export function address(asked: Asked): URLSearchParams {
  const made = new URLSearchParams();
  if (asked.rows !== NOTHING.rows) made.set('rows', asked.rows);
  if (asked.search) made.set('q', asked.search);
  if (asked.range === 'custom') {
    if (asked.from) made.set('from', asked.from);
    if (asked.to) made.set('to', asked.to);
  } else if (asked.range !== NOTHING.range) made.set('range', asked.range);
  if (asked.any && asked.conditions.length > 1) made.set('any', '1');
  for (const condition of asked.conditions) made.append('f', writtenCondition(condition));
  return made;
}

/** `status~eq~error`, `@http.route~exists`: the value is all that follows. */
function writtenCondition({ of, name, op, value }: Condition): string {
  const safe = name.replaceAll('%', '%25').replaceAll('~', '%7E');
  return `${of === 'attribute' ? '@' : ''}${safe}~${op}${takesValue(op) ? `~${value}` : ''}`;
}

function readCondition(text: string): unknown {
  const [, at, name = '', op, value = ''] = /^(@?)([^~]*)~(\w+)(?:~(.*))?$/s.exec(text) ?? [];
  return { of: at ? 'attribute' : 'field', name: name.replaceAll('%7E', '~').replaceAll('%25', '%'), op, value };
}

// Saved views

export const viewBody = (asked: Asked): Record<string, unknown> => ({
  ...asked,
  conditions: asked.conditions.map((one) => ({ ...one })),
});

export const readView = (body: Record<string, unknown>): Asked => checked(body);

/** Do both ask the same? */
export const isSame = (one: Asked, other: Asked): boolean => String(address(one)) === String(address(other));

function checked(given: Record<string, unknown>): Asked {
  const { rows, search, range, from, to, any, conditions } = given;
  const read = {
    rows: rows === 'spans' ? ('spans' as const) : ('traces' as const),
    search: typeof search === 'string' ? search.slice(0, LONGEST_SEARCH) : '',
    any: any === true,
    conditions: Array.isArray(conditions) ? conditions.flatMap(checkedCondition).slice(0, MOST_CONDITIONS) : [],
  };
  const begin = time(from);
  const end = time(to);
  if (range === 'custom' && (begin || end)) return { ...read, range, from: begin, to: end };
  const known = typeof range === 'string' && range !== 'custom' && Object.hasOwn(RANGES, range);
  return { ...read, range: known ? (range as Range) : NOTHING.range, from: null, to: null };
}

function checkedCondition(given: unknown): Condition[] {
  if (typeof given !== 'object' || given === null) return [];
  const { of, name, op, value } = given as Record<string, unknown>;
  if (typeof name !== 'string' || name === '' || name.length > LONGEST_NAME) return [];
  const known = OPS.find((one) => one === op);
  if (!known) return [];
  const text = typeof value === 'string' && takesValue(known) ? value.slice(0, LONGEST_VALUE) : '';
  return [{ of: of === 'attribute' ? 'attribute' : 'field', name, op: known, value: text }];
}

const time = (given: unknown): string | null => {
  const at = typeof given === 'string' ? Date.parse(given) : Number.NaN;
  return Number.isNaN(at) ? null : new Date(at).toISOString();
};

// What the server is asked

export interface Between {
  from: string | null;
  to: string | null;
}

/** The time that is meant, now. */
export function between({ range, from, to }: Asked, now: number): Between {
  const length = LENGTHS[range];
  if (length !== undefined) return { from: new Date(now - length).toISOString(), to: null };
  return range === 'custom' ? { from, to } : { from: null, to: null };
}

/** The filter as the server reads it. */
export function filterOf({ any, conditions }: Asked): unknown {
  const leaves = conditions.map(leafOf);
  if (leaves.length < 2) return leaves[0] ?? null;
  return any ? { or: leaves } : { and: leaves };
}

function leafOf({ of, name, op, value }: Condition): unknown {
  if (!takesValue(op)) return { [of]: name, op };
  const texts = takesList(op) ? listed(value) : [value.trim()];
  if (of === 'attribute') return attributeLeaf(name, op, texts);
  const type = fieldOf(name)?.type;
  const values = texts.map((text) => (type === 'number' ? (number(text) ?? text) : text));
  return { field: name, op, value: takesList(op) ? values : values[0] };
}

/** Nobody says whether 200 is a number or a text in an attribute: where it may be either, both are meant. */
function attributeLeaf(name: string, op: Op, texts: readonly string[]): unknown {
  if (op === 'contains' || op === 'starts_with') return { attribute: name, op, value: texts[0] };
  if (op !== 'eq' && op !== 'ne' && !takesList(op))
    return { attribute: name, op, value: number(texts[0] ?? '') ?? texts[0] };
  const values = texts.flatMap((text) => [text, ...[number(text) ?? truth(text)].filter((one) => one !== undefined)]);
  const several = op === 'eq' || op === 'in' ? 'in' : 'not_in';
  return values.length === 1 && !takesList(op)
    ? { attribute: name, op, value: values[0] }
    : { attribute: name, op: several, value: values };
}

/** Separated by commas. */
export const listed = (value: string): string[] => {
  const several = value
    .split(',')
    .map((one) => one.trim())
    .filter(Boolean);
  return several.length > 0 ? several : [''];
};

export const number = (text: string): number | undefined => {
  const read = text.trim() === '' ? Number.NaN : Number(text);
  return Number.isFinite(read) ? read : undefined;
};

const truth = (text: string): boolean | undefined => (text === 'true' ? true : text === 'false' ? false : undefined);

/** What is asked, as the address says it; to ask something else is to go there. */
export interface Asking {
  asked: Asked;
  /** The saved view that was chosen last, whatever was changed since. */
  view: string | null;
  /** `replace`: no step that Back takes back, as while somebody types. */
  ask: (asked: Asked, options?: { view?: string | null; replace?: boolean }) => void;
}

export function useAsked(): Asking {
  const [params, setParams] = useSearchParams();
  const text = String(params);
  const asked = useMemo(() => readAddress(new URLSearchParams(text)), [text]);
  const view = params.get('view');
  const ask = useCallback<Asking['ask']>(
    (next, { view: chosen = view, replace = false } = {}) => {
      const made = address(next);
      if (chosen) made.set('view', chosen);
      setParams(made, { replace });
    },
    [view, setParams],
  );
  return { asked, view, ask };
}
