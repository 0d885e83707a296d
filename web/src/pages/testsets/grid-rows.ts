/** Rows of the grid: those of the revision with edits applied, and added ones. */
import { type AddedRow, type RowData, type Edits, applyPatch } from './edits';
import type { TestsetRow } from './queries';

export interface GridEntry {
  /** Row id, or key of an added row. */
  key: string;
  /** Null for an added row. */
  row: TestsetRow | null;
  added: AddedRow | null;
}

/** `isSome`: the rows are search results; added rows show after theirs. */
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

export const entryData = ({ key, row, added }: GridEntry, edits: Edits): RowData =>
  row ? applyPatch(key, row.data, edits) : (added?.data ?? {});

/** Whether the cell differs from the revision. */
export function isCellChanged({ key, row }: GridEntry, column: string, edits: Edits): boolean {
  const patch = row ? edits.patches.get(key) : undefined;
  return patch !== undefined && (Object.hasOwn(patch.set, column) || patch.unset.includes(column));
}

/** Full size in bytes of a cell that the page of rows has cut; undefined if complete or edited. */
export function cutCellBytes({ row }: GridEntry, column: string, was: string | null): number {
  const cut = row?.cut ?? {};
  const name = was ?? column;
  return Object.hasOwn(cut, name) ? (cut[name] ?? 0) : 0;
}

/** Width of the row numbers in pixels. */
export const GUTTER_WIDTH = 80;

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
