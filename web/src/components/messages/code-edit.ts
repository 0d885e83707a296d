/**
 * Code edits that a workflow proposes (data part `code-edit`), and where they apply among the inputs. Parsed
 * defensively: a workflow may send anything.
 */
import { createContext } from 'react';

export interface CodeEdit {
  language: string;
  target: string;
  old: string;
  /** Null if the edit could not be applied. */
  new: string | null;
  /** Path of the code in the inputs (a JSON pointer on the wire); null if unknown. */
  input: readonly string[] | null;
  /** Syntax errors of the result; empty if valid or not checked. */
  errors: readonly string[];
  edits: readonly { state: string; reason: string }[];
  /** Findings of rules; null if none ran. */
  findings: readonly Finding[] | null;
}

export interface Finding {
  rule: string;
  level: 'error' | 'warning' | 'note';
  line: number | null;
  message: string;
}

const MAX_POINTER_LENGTH = 500;

/** Parse the value of a data part; ignores unknown fields. */
export function parseCodeEdit(value: unknown): CodeEdit | undefined {
  const data = asRecord(value);
  if (
    !data ||
    typeof data.old !== 'string' ||
    !(typeof data.new === 'string' || data.new === null || data.new === undefined)
  )
    return undefined;
  const syntax = asRecord(data.syntax);
  return {
    language: asText(data.language),
    target: asText(data.target),
    old: data.old,
    new: data.new ?? null,
    input: parsePointer(data.input),
    errors: syntax?.ok === false ? asList(syntax.errors).map(formatSyntaxError) : [],
    edits: asList(data.edits).flatMap((item) => {
      const edit = asRecord(item);
      return edit ? [{ state: asText(edit.state), reason: asText(edit.reason) }] : [];
    }),
    findings: parseFindings(data.findings),
  };
}

/** Segments of a JSON pointer (RFC 6901). */
function parsePointer(pointer: unknown): readonly string[] | null {
  if (typeof pointer !== 'string' || !pointer.startsWith('/') || pointer.length > MAX_POINTER_LENGTH) return null;
  return pointer
    .slice(1)
    .split('/')
    .map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'));
}

function parseFindings(value: unknown): readonly Finding[] | null {
  if (!Array.isArray(value)) return null;
  const findings = asList(value).flatMap((item): Finding[] => {
    const finding = asRecord(item);
    const message = asText(finding?.message);
    if (!finding || message === '') return [];
    const { level, line } = finding;
    return [
      {
        rule: asText(finding.rule),
        level: level === 'error' || level === 'warning' ? level : 'note',
        line: typeof line === 'number' && Number.isSafeInteger(line) && line > 0 ? line : null,
        message,
      },
    ];
  });
  // If no item could be parsed, the findings are unknown, not empty.
  return findings.length === 0 && value.length > 0 ? null : findings;
}

const asRecord = (value: unknown): Record<string, unknown> | undefined =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;
const asText = (value: unknown): string => (typeof value === 'string' ? value : '');
const asList = (value: unknown): unknown[] => (Array.isArray(value) ? value.slice(0, 100) : []);

function formatSyntaxError(value: unknown): string {
  const error = asRecord(value);
  if (!error) return asText(value) || JSON.stringify(value);
  const line = typeof error.line === 'number' ? `line ${error.line}: ` : '';
  return `${line}${asText(error.message) || asText(error.text) || JSON.stringify(value)}`;
}

export type Path = readonly string[];

export interface EditTarget {
  /** `changed`: neither the old nor the new code is at the target. */
  state: 'ready' | 'applied' | 'changed';
  path: Path;
}

const MAX_DEPTH = 16;
const MAX_VALUES_VISITED = 10_000;

/**
 * Find where an edit applies: the path that the workflow names, or else the only input that holds the old code (or the
 * new code, if already applied). `last` is the previous target, used if neither is found. Null if there is no target.
 */
export function findEditTarget(edit: CodeEdit, inputs: InputValues, last: Path | null = null): EditTarget | null {
  if (edit.new === null || edit.new === edit.old) return null;
  if (edit.input && canHoldText(inputs, edit.input))
    return { state: editState(edit, inputs, edit.input), path: edit.input };
  const oldPath = findOnlyOccurrence(inputs, edit.old);
  if (oldPath) return { state: 'ready', path: oldPath };
  const newPath = findOnlyOccurrence(inputs, edit.new);
  if (newPath) return { state: 'applied', path: newPath };
  return last && canHoldText(inputs, last) ? { state: 'changed', path: last } : null;
}

function editState(edit: CodeEdit, inputs: InputValues, path: Path): EditTarget['state'] {
  const current = textAt(inputs, path);
  if (current === edit.new) return 'applied';
  // A missing or blank input counts as ready: the edit overwrites nothing.
  return current === edit.old || current === null || current.trim() === '' ? 'ready' : 'changed';
}

export function textAt(inputs: InputValues, path: Path): string | null {
  const current = path.reduce<unknown>((value, name) => valueAt(value, name), inputs);
  return typeof current === 'string' ? current : null;
}

/** Return a copy of the inputs with the text set at `path`, creating missing objects. */
export function withText(inputs: InputValues, path: Path, text: string): InputValues {
  return putText(inputs, path, text) as InputValues;
}

function putText(value: unknown, path: Path, text: string): unknown {
  const [name, ...rest] = path;
  if (name === undefined) return text;
  if (Array.isArray(value))
    return value.map((item: unknown, index) => (String(index) === name ? putText(item, rest, text) : item));
  return { ...(isObject(value) ? value : {}), [name]: putText(valueAt(value, name), rest, text) };
}

/** Whether a text can be set at `path`: a key of an object or an existing index of a list, but not in `messages`. */
function canHoldText(inputs: InputValues, path: Path): boolean {
  if (path.length === 0 || path.length > MAX_DEPTH || path[0] === 'messages') return false;
  let value: unknown = inputs;
  for (const name of path) {
    if (
      Array.isArray(value)
        ? valueAt(value, name) === undefined
        : !isObject(value) && value !== undefined && value !== null
    )
      return false;
    value = valueAt(value, name);
  }
  return value === undefined || value === null || typeof value === 'string';
}

/** Path of the only input that equals the text; null if there is none or several. */
function findOnlyOccurrence(inputs: InputValues, text: string): Path | null {
  if (text === '') return null;
  const paths: Path[] = [];
  let visited = 0;
  const walk = (value: unknown, path: Path): void => {
    visited += 1;
    if (visited > MAX_VALUES_VISITED || paths.length > 1 || path.length > MAX_DEPTH) return;
    if (value === text) paths.push(path);
    if (typeof value !== 'object' || value === null) return;
    for (const [name, item] of Object.entries(value))
      if (path.length > 0 || name !== 'messages') walk(item, [...path, name]);
  };
  walk(inputs, []);
  return paths.length === 1 ? (paths[0] ?? null) : null;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function valueAt(value: unknown, name: string): unknown {
  if (Array.isArray(value)) return /^(0|[1-9]\d*)$/.test(name) ? (value[Number(name)] as unknown) : undefined;
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
}

/** Inputs of the workflow, to which a code edit can be applied. */
export type InputValues = Readonly<Record<string, unknown>>;

export interface InputsAccess {
  subscribe: (listener: () => void) => () => void;
  /** The inputs that are set; stable identity until they change. */
  read: () => InputValues;
  /** The defaults of unset inputs. */
  defaults: () => InputValues;
  change: (update: (values: InputValues) => InputValues) => void;
}

/** Null where there are no inputs. */
export const InputsContext = createContext<InputsAccess | null>(null);
