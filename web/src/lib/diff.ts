/** Differences between two outputs: text word by word, tool calls by name and arguments. */
import { diffArrays, diffWordsWithSpace } from 'diff';
import { isObject } from '@/components/forms/json-schema';
import { isEqual } from '@/components/forms/values';

export interface DiffPiece {
  text: string;
  change: 'same' | 'added' | 'removed';
}

/** Texts that differ in nearly every word take long and show little. */
const DIFF_TIMEOUT_MS = 150;

/** The pieces that turn `base` into `other`. */
export function textDiff(base: string, other: string): DiffPiece[] {
  if (base === other) return base ? [{ text: base, change: 'same' }] : [];
  const changes = diffWordsWithSpace(base, other, { timeout: DIFF_TIMEOUT_MS });
  const pieces: DiffPiece[] = changes
    ? changes.map(({ value, added, removed }) => ({
        text: value,
        change: added ? 'added' : removed ? 'removed' : 'same',
      }))
    : [
        { text: base, change: 'removed' },
        { text: other, change: 'added' },
      ];
  return pieces.filter(({ text }) => text);
}

export interface ToolCall {
  name: string;
  /** As the model wrote them, usually JSON. */
  arguments: string;
}

export interface ValueChange {
  /** JSON pointer into the arguments; empty for the whole. */
  path: string;
  /** Undefined: missing on that side. */
  from: unknown;
  to: unknown;
}

export type CallChange =
  | { call: ToolCall; change: 'same' | 'added' | 'removed' }
  | { call: ToolCall; change: 'changed'; changes: ValueChange[] };

/** Both lists of calls aligned by name; matching calls are compared by their arguments. */
export function toolCallsDiff(base: readonly ToolCall[], other: readonly ToolCall[]): CallChange[] {
  const names = diffArrays(
    base.map(({ name }) => name),
    other.map(({ name }) => name),
  );
  const before = [...base];
  const after = [...other];
  return names.flatMap(({ added, removed, value }): CallChange[] => {
    if (added) return after.splice(0, value.length).map((call) => ({ call, change: 'added' }));
    if (removed) return before.splice(0, value.length).map((call) => ({ call, change: 'removed' }));
    const replaced = before.splice(0, value.length);
    return after.splice(0, value.length).map((call, index) => {
      const changes = valueChanges(parseArguments(replaced[index]?.arguments ?? ''), parseArguments(call.arguments));
      return changes.length ? { call, change: 'changed', changes } : { call, change: 'same' };
    });
  });
}

function parseArguments(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** Differences between two values, recursing into objects. */
export function valueChanges(from: unknown, to: unknown, path = ''): ValueChange[] {
  if (isEqual(from, to)) return [];
  if (!isObject(from) || !isObject(to)) return [{ path, from, to }];
  const names = [...new Set([...Object.keys(from), ...Object.keys(to)])];
  return names.flatMap((name) =>
    valueChanges(from[name], to[name], `${path}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`),
  );
}
