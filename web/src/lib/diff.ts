/** How one answer differs from another: its text word by word, its tool calls by name and arguments. Pure. */
import { diffArrays, diffWordsWithSpace } from 'diff';
import { isObject } from '@/components/forms/json-schema';
import { isEqual } from '@/components/forms/values';

export interface Piece {
  text: string;
  change: 'same' | 'added' | 'removed';
}

/** Texts that differ in nearly every word would take long and tell little. */
const PATIENCE = 150;

/** What must be taken from `base` and put into it to get `other`. */
export function textDiff(base: string, other: string): Piece[] {
  if (base === other) return base ? [{ text: base, change: 'same' }] : [];
  const found = diffWordsWithSpace(base, other, { timeout: PATIENCE });
  const pieces: Piece[] = found
    ? found.map(({ value, added, removed }) => ({
        text: value,
        change: added ? 'added' : removed ? 'removed' : 'same',
      }))
    : [
        { text: base, change: 'removed' },
        { text: other, change: 'added' },
      ];
  return pieces.filter(({ text }) => text);
}

export interface Call {
  name: string;
  /** As the model wrote them: mostly JSON. */
  arguments: string;
}

export interface Change {
  /** A JSON pointer into the arguments; empty for the whole. */
  path: string;
  /** Undefined: not there on that side. */
  from: unknown;
  to: unknown;
}

export type CallChange =
  | { call: Call; change: 'same' | 'added' | 'removed' }
  | { call: Call; change: 'changed'; changes: Change[] };

/** The calls of both in order; those of one name that answer each other are compared by their arguments. */
export function callsDiff(base: readonly Call[], other: readonly Call[]): CallChange[] {
  const names = diffArrays(
    base.map(({ name }) => name),
    other.map(({ name }) => name),
  );
  const before = [...base];
  const after = [...other];
  return names.flatMap(({ added, removed, value }): CallChange[] => {
    if (added) return after.splice(0, value.length).map((call) => ({ call, change: 'added' }));
    if (removed) return before.splice(0, value.length).map((call) => ({ call, change: 'removed' }));
    const were = before.splice(0, value.length);
    return after.splice(0, value.length).map((call, place) => {
      const changes = changed(parsed(were[place]?.arguments ?? ''), parsed(call.arguments));
      return changes.length ? { call, change: 'changed', changes } : { call, change: 'same' };
    });
  });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}

/** Where two values differ, as deep as both are objects. */
export function changed(from: unknown, to: unknown, path = ''): Change[] {
  if (isEqual(from, to)) return [];
  if (!isObject(from) || !isObject(to)) return [{ path, from, to }];
  const names = [...new Set([...Object.keys(from), ...Object.keys(to)])];
  return names.flatMap((name) =>
    changed(from[name], to[name], `${path}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`),
  );
}
