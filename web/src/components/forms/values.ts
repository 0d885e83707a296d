/** Values of form fields: parse, check lightly (the server validates fully), set and unset. */
import { pluralize } from '@/lib/format';
import { unreachable } from '@/lib/unreachable';
import { type Form, type JsonSchema, type Range, type Shape, formOf, isObject } from './json-schema';

export interface FieldError {
  /** JSON pointer into the form's value. */
  path: string;
  message: string;
}

export const pointer = (path: string, name: string | number): string =>
  `${path}/${String(name).replaceAll('~', '~0').replaceAll('/', '~1')}`;

/** Parse a number; null if invalid. */
export function parseNumber(text: string, isInteger: boolean): number | null {
  const trimmed = text.trim();
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(trimmed)) return null;
  const value = Number(trimmed);
  return Number.isFinite(value) && (!isInteger || Number.isSafeInteger(value)) ? value : null;
}

/** Range and step of a slider; null if a bound is missing or the range is empty. */
export function sliderRange(range: Range, isInteger: boolean): { from: number; to: number; step: number } | null {
  const lower = Math.max(range.min, range.above);
  const max = Math.min(range.max, range.below);
  const width = max - lower;
  if (!Number.isFinite(width) || width <= 0 || (isInteger && width > 10_000)) return null;
  // By default 1 for integers, else a power of ten that makes 50 to 500 steps.
  const step = range.step ?? (isInteger ? 1 : 10 ** Math.floor(Math.log10(width / 50)));
  const from = range.above >= lower ? roundTo(lower + step, step) : lower;
  const to = range.below <= max ? roundTo(max - step, step) : max;
  return from < to ? { from, to, step } : null;
}

const roundTo = (value: number, step: number): number => Number((Math.round(value / step) * step).toPrecision(12));

/** Error of a value in one line, or null. Unset values are valid. */
export function fieldError(shape: Shape, value: unknown): string | null {
  if (value === undefined) return null;
  if (value === null) return shape.nullable || shape.kind === 'json' ? null : 'Must not be null.';
  switch (shape.kind) {
    case 'text':
      if (typeof value !== 'string') return 'Must be text.';
      if (value.length < shape.minLength) return `Must have at least ${pluralize(shape.minLength, 'character')}.`;
      return value.length > shape.maxLength ? `Must have at most ${pluralize(shape.maxLength, 'character')}.` : null;
    case 'number':
      return numberError(shape.range, shape.isInteger, value);
    case 'switch':
      return typeof value === 'boolean' ? null : 'Must be true or false.';
    case 'choice':
      return shape.options.some((option) => isEqual(option, value))
        ? null
        : `Must be one of: ${shape.options.map(formatValue).join(', ')}.`;
    case 'list':
      if (!Array.isArray(value)) return 'Must be a list.';
      if (value.length < shape.min) return `Must have at least ${pluralize(shape.min, 'item')}.`;
      return value.length > shape.max ? `Must have at most ${pluralize(shape.max, 'item')}.` : null;
    case 'group':
      return isObject(value) ? null : 'Must be an object.';
    case 'json':
      return null;
    default:
      return unreachable(shape);
  }
}

function numberError(range: Range, isInteger: boolean, value: unknown): string | null {
  if (typeof value !== 'number') return 'Must be a number.';
  if (isInteger && !Number.isInteger(value)) return 'Must be a whole number.';
  if (value < range.min) return `Must be at least ${range.min}.`;
  if (value > range.max) return `Must be at most ${range.max}.`;
  if (value <= range.above) return `Must be greater than ${range.above}.`;
  return value >= range.below ? `Must be less than ${range.below}.` : null;
}

/** Whether a field of this kind can show the value; if not it is shown as JSON. */
export function matchesShape(shape: Shape, value: unknown): boolean {
  if (value === undefined || value === null) return true;
  switch (shape.kind) {
    case 'text':
      return typeof value === 'string';
    case 'number':
      return typeof value === 'number';
    case 'switch':
      return typeof value === 'boolean';
    case 'choice':
      return shape.options.some((option) => isEqual(option, value));
    case 'list':
      return Array.isArray(value) && value.every((item) => item !== null && matchesShape(shape.item, item));
    case 'group':
      return isObject(value);
    case 'json':
      return true;
    default:
      return unreachable(shape) ?? false;
  }
}

/** All errors of a form's value, including missing required fields. */
export function formErrors(
  schema: JsonSchema,
  value: Readonly<Record<string, unknown>>,
  excluded: readonly string[] = [],
): FieldError[] {
  return nestedErrors(formOf(schema, excluded), value, '');
}

function nestedErrors(form: Form, value: Readonly<Record<string, unknown>>, path: string): FieldError[] {
  return form.fields.flatMap(({ name, required, shape }) => {
    const fieldPath = pointer(path, name);
    const fieldValue = value[name];
    if (fieldValue === undefined)
      return required && shape.fallback === undefined ? [{ path: fieldPath, message: 'Required.' }] : [];
    const message = fieldError(shape, fieldValue);
    if (message) return [{ path: fieldPath, message }];
    if (shape.kind === 'group' && isObject(fieldValue)) return nestedErrors(shape, fieldValue, fieldPath);
    if (shape.kind === 'list' && Array.isArray(fieldValue)) return itemErrors(shape.item, fieldValue, fieldPath);
    return [];
  });
}

function itemErrors(item: Shape, items: readonly unknown[], path: string): FieldError[] {
  return items.flatMap((value, index) => {
    const message = fieldError(item, value);
    return message ? [{ path: pointer(path, index), message }] : [];
  });
}

// Set and unset

type Values = Readonly<Record<string, unknown>>;

/** Set `name`; undefined unsets it. */
export function withField(values: Values, name: string, value: unknown): Record<string, unknown> {
  // Keep the position of the name, so that the JSON view does not jump.
  if (value !== undefined) return { ...values, [name]: value };
  const { [name]: _, ...remaining } = values;
  return remaining;
}

/**
 * Set a field of a nested object, which is sent whole or not at all: the first change starts from the object's
 * default, and an object equal to its default is unset.
 */
export function withNestedField(
  group: unknown,
  fallback: unknown,
  name: string,
  value: unknown,
): Record<string, unknown> | undefined {
  const fallbackValues = isObject(fallback) ? fallback : {};
  const changed = withField(
    isObject(group) ? group : fallbackValues,
    name,
    value === undefined ? fallbackValues[name] : value,
  );
  return isEqual(changed, fallbackValues) ? undefined : changed;
}

/** Entries of the value that have no field. */
export function unknownFields(form: Form, values: Values, excluded: readonly string[]): Record<string, unknown> {
  const knownNames = new Set([...form.fields.map(({ name }) => name), ...excluded]);
  return Object.fromEntries(Object.entries(values).filter(([name]) => !knownNames.has(name)));
}

/** Empty value for a new list item. */
export function emptyItem(shape: Shape): unknown {
  if (shape.fallback !== undefined) return shape.fallback;
  switch (shape.kind) {
    case 'text':
      return '';
    case 'number':
      return Math.max(Number.isFinite(shape.range.min) ? shape.range.min : 0, 0);
    case 'switch':
      return false;
    case 'choice':
      return shape.options[0];
    default:
      return null;
  }
}

/** Short text of a value, for a placeholder. */
export function formatValue(value: unknown): string {
  if (value === undefined) return '';
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text.length > 200 ? `${text.slice(0, 199)}…` : text;
}

/** Deep equality of JSON values, ignoring key order. */
export function isEqual(one: unknown, other: unknown): boolean {
  if (Object.is(one, other)) return true;
  if (Array.isArray(one) && Array.isArray(other))
    return one.length === other.length && one.every((item, index) => isEqual(item, other[index]));
  if (!isObject(one) || !isObject(other)) return false;
  const names = Object.keys(one);
  return (
    names.length === Object.keys(other).length &&
    names.every((name) => Object.hasOwn(other, name) && isEqual(one[name], other[name]))
  );
}
