/** What the grid and its rows have in common. */

/** The width of the rows' numbers, in pixels. */
export const GUTTER = 80;

export interface Place {
  key: string;
  column: string;
}

export interface Selection {
  keys: ReadonlySet<string>;
  set: (keys: ReadonlySet<string>) => void;
}

export function toggled(keys: ReadonlySet<string>, key: string): ReadonlySet<string> {
  const next = new Set(keys);
  if (!next.delete(key)) next.add(key);
  return next;
}
