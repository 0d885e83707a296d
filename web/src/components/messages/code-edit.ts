/**
 * A change of code that a workflow proposes (data part `code-edit`), read with care: any workflow may send anything.
 */
import { createContext } from 'react';

export interface CodeEdit {
  language: string;
  target: string;
  old: string;
  /** Nothing: no edit could be applied. */
  new: string | null;
  /** Where in the inputs the code came from, name by name (a JSON pointer on the wire); null: not told. */
  input: readonly string[] | null;
  /** What the result's syntax is wrong in; empty where it is right or was not read. */
  errors: readonly string[];
  edits: readonly { state: string; reason: string }[];
  /** What rules say of the result; null: none were asked. */
  findings: readonly Finding[] | null;
}

export interface Finding {
  rule: string;
  level: 'error' | 'warning' | 'note';
  line: number | null;
  message: string;
}

const MAX_POINTER_LENGTH = 500;

/** The part's value if it is one, whatever a newer workflow may add. */
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
    language: readText(data.language),
    target: readText(data.target),
    old: data.old,
    new: data.new ?? null,
    input: parsePointer(data.input),
    errors: syntax?.ok === false ? asList(syntax.errors).map(asString) : [],
    edits: asList(data.edits).flatMap((item) => {
      const edit = asRecord(item);
      return edit ? [{ state: readText(edit.state), reason: readText(edit.reason) }] : [];
    }),
    findings: parseFindings(data.findings),
  };
}

/** The names of a JSON pointer (RFC 6901). */
function parsePointer(pointer: unknown): readonly string[] | null {
  if (typeof pointer !== 'string' || !pointer.startsWith('/') || pointer.length > MAX_POINTER_LENGTH) return null;
  return pointer
    .slice(1)
    .split('/')
    .map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'));
}

function parseFindings(value: unknown): readonly Finding[] | null {
  if (!Array.isArray(value)) return null;
  const found = asList(value).flatMap((item): Finding[] => {
    const finding = asRecord(item);
    const message = readText(finding?.message);
    if (!finding || message === '') return [];
    const { level, line } = finding;
    return [
      {
        rule: readText(finding.rule),
        level: level === 'error' || level === 'warning' ? level : 'note',
        line: typeof line === 'number' && Number.isSafeInteger(line) && line > 0 ? line : null,
        message,
      },
    ];
  });
  // A list of what cannot be read is not a list of nothing.
  return found.length === 0 && value.length > 0 ? null : found;
}

const asRecord = (value: unknown): Record<string, unknown> | undefined =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;
const readText = (value: unknown): string => (typeof value === 'string' ? value : '');
const asList = (value: unknown): unknown[] => (Array.isArray(value) ? value.slice(0, 100) : []);

function asString(value: unknown): string {
  const error = asRecord(value);
  if (!error) return readText(value) || JSON.stringify(value);
  const line = typeof error.line === 'number' ? `line ${error.line}: ` : '';
  return `${line}${readText(error.message) || readText(error.text) || JSON.stringify(value)}`;
}

/**
 * Where a proposed change of code belongs among the inputs that the code came from, and how it stands with it there.
 * The place is the one that the workflow names; without a name it is where the old code stands, if that is one place.
 * Pure: what is shown follows from the inputs alone, so it is the same in every tab and after a reload.
 */
export type Path = readonly string[];

export interface EditTarget {
  /** `changed`: neither the old nor the new code is there any more. */
  state: 'ready' | 'applied' | 'changed';
  path: Path;
}

const MAX_DEPTH = 16;
const MAX_INPUTS_SEARCHED = 10_000;

/**
 * `last`: where it stood when it was last seen, for a place that nobody named. Null: there is nothing to put it into.
 */
export function findEditTarget(edit: CodeEdit, inputs: InputValues, last: Path | null = null): EditTarget | null {
  if (edit.new === null || edit.new === edit.old) return null;
  if (edit.input && canHoldText(inputs, edit.input))
    return { state: editState(edit, inputs, edit.input), path: edit.input };
  const old = findOnlyOccurrence(inputs, edit.old);
  if (old) return { state: 'ready', path: old };
  const now = findOnlyOccurrence(inputs, edit.new);
  if (now) return { state: 'applied', path: now };
  return last && canHoldText(inputs, last) ? { state: 'changed', path: last } : null;
}

function editState(edit: CodeEdit, inputs: InputValues, path: Path): EditTarget['state'] {
  const there = textAt(inputs, path);
  if (there === edit.new) return 'applied';
  // Where nothing stands, nothing is lost.
  return there === edit.old || there === null || there.trim() === '' ? 'ready' : 'changed';
}

/** The text of an input; null where none is. */
export function textAt(inputs: InputValues, path: Path): string | null {
  const there = path.reduce<unknown>((at, name) => valueAt(at, name), inputs);
  return typeof there === 'string' ? there : null;
}

/** The inputs with that text in that place; what is on the way there and missing is made. */
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

/**
 * May a text stand there? In an object under any name, in a list where something is. The conversation is no place for
 * code.
 */
function canHoldText(inputs: InputValues, path: Path): boolean {
  if (path.length === 0 || path.length > MAX_DEPTH || path[0] === 'messages') return false;
  let at: unknown = inputs;
  for (const name of path) {
    if (Array.isArray(at) ? valueAt(at, name) === undefined : !isObject(at) && at !== undefined && at !== null)
      return false;
    at = valueAt(at, name);
  }
  return at === undefined || at === null || typeof at === 'string';
}

/** The one place where this text stands; null where it stands nowhere, or in several. */
function findOnlyOccurrence(inputs: InputValues, text: string): Path | null {
  if (text === '') return null;
  const found: Path[] = [];
  let seen = 0;
  const walk = (value: unknown, path: Path): void => {
    seen += 1;
    if (seen > MAX_INPUTS_SEARCHED || found.length > 1 || path.length > MAX_DEPTH) return;
    if (value === text) found.push(path);
    if (typeof value !== 'object' || value === null) return;
    for (const [name, item] of Object.entries(value))
      if (path.length > 0 || name !== 'messages') walk(item, [...path, name]);
  };
  walk(inputs, []);
  return found.length === 1 ? (found[0] ?? null) : null;
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function valueAt(value: unknown, name: string): unknown {
  if (Array.isArray(value)) return /^(0|[1-9]\d*)$/.test(name) ? (value[Number(name)] as unknown) : undefined;
  return isObject(value) && Object.hasOwn(value, name) ? value[name] : undefined;
}

/**
 * The inputs that go with the next question, where a message is shown beside them: what it proposes can be put into
 * them.
 */
export type InputValues = Readonly<Record<string, unknown>>;

export interface InputsAccess {
  subscribe: (listener: () => void) => () => void;
  /** What is set; the same object until it changes. */
  read: () => InputValues;
  /** What holds where nothing is set. */
  usual: () => InputValues;
  change: (update: (values: InputValues) => InputValues) => void;
}

/** Null where there are none, as in a thread's copy. */
export const InputsContext = createContext<InputsAccess | null>(null);
