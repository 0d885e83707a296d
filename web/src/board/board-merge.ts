/** Two versions of a board that come from one. Pure. */
import type { Board } from '@/api/types';

const OWN = ['name', 'mode', 'columns', 'rows', 'layout', 'testset'] as const;

export interface Merged {
  board: Board;
  /** Is something of ours in it that they do not have? */
  isOurs: boolean;
  /** Was something of ours dropped, because they changed it too? */
  isLost: boolean;
}

/** What only one side changed is taken from that side; what both changed is theirs. */
export function merged(ours: Board, base: Board, theirs: Board): Merged {
  const board: Board = { ...theirs };
  let isOurs = false;
  let isLost = false;
  for (const name of OWN) {
    if (!unlike(ours[name], base[name]) || !unlike(ours[name], theirs[name])) continue;
    if (unlike(theirs[name], base[name])) isLost = true;
    else {
      isOurs = true;
      Object.assign(board, { [name]: ours[name] });
    }
  }
  return { board, isOurs, isLost };
}

/** Values of JSON; the order of an object's keys is the writer's own. */
export function unlike(one: unknown, other: unknown): boolean {
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return one !== other;
  if (Array.isArray(one) !== Array.isArray(other)) return true;
  const [first, second] = [one as Record<string, unknown>, other as Record<string, unknown>];
  const names = new Set([...Object.keys(first), ...Object.keys(second)]);
  return [...names].some((name) => unlike(first[name], second[name]));
}
