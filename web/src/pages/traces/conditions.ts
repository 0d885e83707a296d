/** Fields and operators of filter conditions, and their display text. */
import type { Condition } from './query';

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
  { name: 'cost_source', label: 'Cost from', type: 'choice', choices: ['reported', 'computed'] },
  {
    name: 'finish',
    label: 'Finish',
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
  { name: 'trace_id', label: 'Trace id', type: 'text' },
  { name: 'span_id', label: 'Span id', type: 'text' },
  { name: 'parent_id', label: 'Parent id', type: 'text' },
];

const BY_NAME = new Map(FIELDS.map((field) => [field.name, field]));

export const conditionField = (name: string): ConditionField | undefined => BY_NAME.get(name);

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
  not_in: 'is none of',
  lt: '<',
  lte: '≤',
  gt: '>',
  gte: '≥',
  exists: 'is there',
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
  const shown = field?.type === 'time' && !Number.isNaN(Date.parse(value)) ? formatLocalTime(value) : value;
  return {
    subject: field?.label ?? name,
    verb: opLabel(op, field?.type),
    value: takesValue(op) ? [shown || '""', field?.unit].filter(Boolean).join(' ') : '',
  };
}

/** For `<input type="datetime-local">`, in local time; empty without a time. */
export function toInputValue(at: string | null): string {
  const time = at ? new Date(at) : null;
  if (!time || Number.isNaN(time.getTime())) return '';
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** Parse a local time to ISO 8601; null if invalid. */
export function fromInputValue(text: string): string | null {
  const time = text ? new Date(text) : null;
  return time && !Number.isNaN(time.getTime()) ? time.toISOString() : null;
}

/** `14 Nov, 10:00` */
export function formatLocalTime(at: string): string {
  return new Date(at).toLocaleString('en-GB', { day: 'numeric', month: 'short', hour: '2-digit', minute: '2-digit' });
}
