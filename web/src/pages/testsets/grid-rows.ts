/** The rows of a grid: those of the revision that are not removed, and the new ones in their places. Pure. */
import { type AddedRow, type RowData, type Edits, applyPatch } from './edits';
import type { TestsetRow } from './queries';

export interface GridEntry {
  /** The row's id, or the name of a new one. */
  key: string;
  /** Of the revision; null for a new one. */
  row: TestsetRow | null;
  added: AddedRow | null;
}

/** `isSome`: the rows are those that a search found; a new one is shown where the row before it is. */
export function gridEntries(rows: readonly TestsetRow[], { added, removed }: Edits, isSome: boolean): GridEntry[] {
  const behind = new Map<string | null | undefined, GridEntry[]>();
  for (const row of added)
    behind.set(row.after, [...(behind.get(row.after) ?? []), { key: row.key, row: null, added: row }]);
  const found = isSome ? [] : [...(behind.get(null) ?? [])];
  for (const row of rows) {
    if (!removed.has(row.id)) found.push({ key: row.id, row, added: null });
    const next = behind.get(row.id);
    if (next) found.push(...next);
  }
  return isSome ? found : [...found, ...(behind.get(undefined) ?? [])];
}

/** What its cells are now. */
export const entryData = ({ key, row, added }: GridEntry, edits: Edits): RowData =>
  row ? applyPatch(key, row.data, edits) : (added?.data ?? {});

/** Is this cell not as the revision has it? */
export function isCellChanged({ key, row }: GridEntry, column: string, edits: Edits): boolean {
  const patch = row ? edits.patches.get(key) : undefined;
  return patch !== undefined && (Object.hasOwn(patch.set, column) || patch.unset.includes(column));
}

/** The bytes that a cell has where the page of rows has only its beginning, and nobody has changed it. */
export function cutCell({ row }: GridEntry, column: string, was: string | null): number {
  const cut = row?.cut ?? {};
  const name = was ?? column;
  return Object.hasOwn(cut, name) ? (cut[name] ?? 0) : 0;
}

/** The width of the rows' numbers, in pixels. */
export const GUTTER_WIDTH = 80;

/** What the grid and its rows have in common. */
export interface CellPlace {
  key: string;
  column: string;
}

export interface RowSelection {
  keys: ReadonlySet<string>;
  set: (keys: ReadonlySet<string>) => void;
}

export function toggleKey(keys: ReadonlySet<string>, key: string): ReadonlySet<string> {
  const next = new Set(keys);
  if (!next.delete(key)) next.add(key);
  return next;
}
