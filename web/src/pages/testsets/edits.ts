/**
 * Unsaved edits of a test set, sent as one delta (columns first, then rows). Cells are keyed by current column names.
 */
import { createStore, useStore } from 'zustand';
import type { Schemas } from '@/api/client';
import { isEqual } from '@/components/forms/values';
import type { TestsetRow } from './queries';

export type RowData = Readonly<Record<string, unknown>>;

export interface RowPatch {
  set: RowData;
  unset: readonly string[];
}

export interface AddedRow {
  /** Local key until the server assigns an id. */
  key: string;
  data: RowData;
  /** Row before it; null for the top, undefined for the end. */
  after: string | null | undefined;
}

export interface Edits {
  /** New column names by old ones. */
  rename: ReadonlyMap<string, string>;
  /** Removed columns by old names. */
  remove: readonly string[];
  /** Values for empty cells by column. */
  fill: ReadonlyMap<string, unknown>;
  /** New columns in order. */
  columns: readonly string[];
  patches: ReadonlyMap<string, RowPatch>;
  removed: ReadonlySet<string>;
  added: readonly AddedRow[];
}

export const NO_EDITS: Edits = {
  rename: new Map(),
  remove: [],
  fill: new Map(),
  columns: [],
  patches: new Map(),
  removed: new Set(),
  added: [],
};

export type TestsetColumn = Schemas['ColumnView'];

export interface ShownColumn {
  name: string;
  kind: TestsetColumn['kind'];
  looksLikeChat: boolean;
  isNew: boolean;
  /** Name in the revision. */
  originalName: string | null;
}

/** Value of a cell; undefined if empty. Own properties only, because a column may be named `constructor`. */
export const cellValue = (data: RowData, name: string): unknown => (Object.hasOwn(data, name) ? data[name] : undefined);

// Reading

export function shownColumns(columns: readonly TestsetColumn[], edits: Edits): ShownColumn[] {
  const remaining = columns
    .filter(({ name }) => !edits.remove.includes(name))
    .map(({ name, kind, looks_like: looksLike }) => ({
      name: edits.rename.get(name) ?? name,
      kind,
      looksLikeChat: looksLike === 'chat',
      isNew: false,
      originalName: edits.rename.has(name) ? name : null,
    }));
  return [
    ...remaining,
    ...edits.columns.map((name): ShownColumn => ({
      name,
      kind: 'mixed',
      looksLikeChat: false,
      isNew: true,
      originalName: null,
    })),
  ];
}

/** A row as it will be after saving. */
export function applyPatch(id: string, data: RowData, edits: Edits): RowData {
  const patch = edits.patches.get(id);
  const hasNoColumnEdits = edits.rename.size === 0 && edits.remove.length === 0 && edits.fill.size === 0;
  if (hasNoColumnEdits && !patch) return data;
  const entries = Object.entries(data).flatMap(([name, value]): [string, unknown][] =>
    edits.remove.includes(name) ? [] : [[edits.rename.get(name) ?? name, value]],
  );
  const cells = new Map(entries);
  for (const [name, value] of edits.fill) if (!cells.has(name)) cells.set(name, value);
  for (const [name, value] of Object.entries(patch?.set ?? {})) cells.set(name, value);
  for (const name of patch?.unset ?? []) cells.delete(name);
  return Object.fromEntries(cells);
}

/** Number of changes; a new column without values does not count. */
export function countEdits({ rename, remove, fill, patches, removed, added }: Edits): number {
  const cells = [...patches.values()].reduce((sum, { set, unset }) => sum + Object.keys(set).length + unset.length, 0);
  return rename.size + remove.length + fill.size + cells + removed.size + added.length;
}

export const isEmpty = (edits: Edits): boolean => countEdits(edits) === 0 && edits.columns.length === 0;

export interface Delta {
  add: { data: RowData; after?: string | null }[];
  patch: { id: string; set: RowData; unset: string[] }[];
  remove: string[];
  columns: { rename: Record<string, string>; remove: string[]; fill: Record<string, unknown> };
}

/** The delta for the API. */
export const editsDelta = ({ rename, remove, fill, patches, removed, added }: Edits): Delta => ({
  add: added.map(({ data, after }) => ({ data, ...(after === undefined ? {} : { after }) })),
  patch: [...patches].map(([id, { set, unset }]) => ({ id, set, unset: [...unset] })),
  remove: [...removed],
  columns: { rename: Object.fromEntries(rename), remove: [...remove], fill: Object.fromEntries(fill) },
});

// Cells

/** Set a cell; undefined clears it. `before` is the row of the revision, null for added rows. */
export function withCell(edits: Edits, key: string, name: string, value: unknown, before: RowData | null): Edits {
  if (!before) {
    return {
      ...edits,
      added: edits.added.map((row) => (row.key === key ? { ...row, data: withValue(row.data, name, value) } : row)),
    };
  }
  return withCells(edits, [{ id: key, name, value, before }]);
}

/** Set a column's cell in many rows. */
export function withCells(
  edits: Edits,
  changes: Iterable<{ id: string; name: string; value: unknown; before: RowData }>,
): Edits {
  const editsWithoutPatches = { ...edits, patches: NO_EDITS.patches };
  const patches = new Map(edits.patches);
  for (const { id, name, value, before } of changes) {
    const patch = withPatch(
      patches.get(id) ?? { set: {}, unset: [] },
      name,
      value,
      cellValue(applyPatch(id, before, editsWithoutPatches), name),
    );
    if (patch) patches.set(id, patch);
    else patches.delete(id);
  }
  return { ...edits, patches };
}

/** Add a cell to the patch of its row; null if the patch is empty then. */
function withPatch({ set, unset }: RowPatch, name: string, value: unknown, original: unknown): RowPatch | null {
  const remaining = { set: withValue(set, name, undefined), unset: unset.filter((other) => other !== name) };
  const isReverted = value === undefined ? original === undefined : original !== undefined && isEqual(original, value);
  const next = isReverted
    ? remaining
    : value === undefined
      ? { ...remaining, unset: [...remaining.unset, name] }
      : { ...remaining, set: withValue(set, name, value) };
  return Object.keys(next.set).length + next.unset.length > 0 ? next : null;
}

function withValue(data: RowData, name: string, value: unknown): RowData {
  if (value !== undefined) return { ...data, [name]: value };
  return Object.fromEntries(Object.entries(data).filter(([other]) => other !== name));
}

// Rows

/** Add a row after another one, or at the end. */
export function withRow(edits: Edits, key: string, data: RowData, afterKey: string | undefined): Edits {
  const index = edits.added.findIndex((row) => row.key === afterKey);
  if (index >= 0) {
    const row = { key, data, after: edits.added[index]?.after };
    return { ...edits, added: edits.added.toSpliced(index + 1, 0, row) };
  }
  // Rows added after the same row keep their order; this one comes first.
  const first = afterKey === undefined ? -1 : edits.added.findIndex(({ after }) => after === afterKey);
  return {
    ...edits,
    added: edits.added.toSpliced(first < 0 ? edits.added.length : first, 0, { key, data, after: afterKey }),
  };
}

/** Remove rows. `order` is the displayed order: rows added after a removed one move to the row before. */
export function withoutRows(edits: Edits, keys: ReadonlySet<string>, order: readonly string[]): Edits {
  const addedKeys = new Set(edits.added.map(({ key }) => key));
  const removed = new Set([...edits.removed, ...[...keys].filter((key) => !addedKeys.has(key))]);
  const rowBefore = (after: string): string | null =>
    order.slice(0, Math.max(0, order.indexOf(after))).findLast((id) => !removed.has(id)) ?? null;
  return {
    ...edits,
    removed,
    patches: new Map([...edits.patches].filter(([id]) => !removed.has(id))),
    added: edits.added
      .filter(({ key }) => !keys.has(key))
      // oxlint-disable-next-line oxc/no-map-spread -- the previous edits stay unchanged, for undo
      .map((row) =>
        typeof row.after === 'string' && removed.has(row.after) ? { ...row, after: rowBefore(row.after) } : row,
      ),
  };
}

// Columns

/** Error of a column name, or null. */
export function columnNameError(
  name: string,
  columns: readonly TestsetColumn[],
  edits: Edits,
  currentName?: string,
): string | null {
  if (name === '') return 'Enter a column name.';
  if (name === currentName) return null;
  if (shownColumns(columns, edits).some((column) => column.name === name))
    return 'A column with this name already exists.';
  return edits.remove.includes(name) ? 'A column with this name is being removed. Save your changes first.' : null;
}

export const withColumn = (edits: Edits, name: string): Edits => ({ ...edits, columns: [...edits.columns, name] });

/** Fill empty cells of a column, which may be new. */
export const withFill = (edits: Edits, name: string, value: unknown): Edits => ({
  ...edits,
  fill: new Map([...edits.fill, [name, value]]),
  added: edits.added.map((row) =>
    Object.hasOwn(row.data, name) ? row : { ...row, data: { ...row.data, [name]: value } },
  ),
});

export function renameColumn(edits: Edits, from: string, to: string): Edits {
  const newName = (name: string): string => (name === from ? to : name);
  const withRenames = (data: RowData): RowData =>
    Object.fromEntries(Object.entries(data).map(([name, value]) => [newName(name), value]));
  const original = originalName(edits, from);
  const rename = new Map(edits.rename);
  if (original !== null && original === to) rename.delete(original);
  else if (original !== null) rename.set(original, to);
  return {
    ...edits,
    rename,
    fill: new Map([...edits.fill].map(([name, value]) => [newName(name), value])),
    columns: edits.columns.map(newName),
    patches: new Map(
      [...edits.patches].map(([id, { set, unset }]) => [id, { set: withRenames(set), unset: unset.map(newName) }]),
    ),
    added: edits.added.map((row) => ({ ...row, data: withRenames(row.data) })),
  };
}

export function withoutColumn(edits: Edits, name: string): Edits {
  const original = originalName(edits, name);
  const rename = new Map(edits.rename);
  if (original !== null) rename.delete(original);
  const patches = [...edits.patches].flatMap(([id, { set, unset }]): [string, RowPatch][] => {
    const remaining = { set: withValue(set, name, undefined), unset: unset.filter((other) => other !== name) };
    return Object.keys(remaining.set).length + remaining.unset.length > 0 ? [[id, remaining]] : [];
  });
  return {
    ...edits,
    rename,
    remove: original === null ? edits.remove : [...edits.remove, original],
    fill: new Map([...edits.fill].filter(([other]) => other !== name)),
    columns: edits.columns.filter((other) => other !== name),
    patches: new Map(patches),
    added: edits.added.map((row) => ({ ...row, data: withValue(row.data, name, undefined) })),
  };
}

/** Name of a column in the revision; null if new. */
function originalName({ rename, columns }: Edits, name: string): string | null {
  for (const [oldName, newName] of rename) if (newName === name) return oldName;
  return columns.includes(name) ? null : name;
}

// Rebase on another revision

/** Drop edits of rows that are gone in a newer revision. */
export const rebaseEdits = (edits: Edits, removedRows: ReadonlySet<string>): Edits => ({
  ...edits,
  patches: new Map([...edits.patches].filter(([id]) => !removedRows.has(id))),
  removed: new Set([...edits.removed].filter((id) => !removedRows.has(id))),
  added: edits.added.map((row) =>
    typeof row.after === 'string' && removedRows.has(row.after) ? { ...row, after: undefined } : row,
  ),
});

/** Unsaved edits of one test set; kept while the tab is open. */
export interface TestsetDraft {
  /** Revision that it is based on. */
  base: number;
  edits: Edits;
  /** Previous states, latest last. */
  history: readonly Edits[];
}

const MAX_UNDO_STEPS = 100;

export class Drafts {
  readonly state = createStore<ReadonlyMap<string, TestsetDraft>>(() => new Map());

  of = (id: string): TestsetDraft | undefined => this.state.getState().get(id);

  /** Apply one undoable step. */
  change(id: string, base: number, edits: Edits): void {
    const { edits: before, history, base: initialBase } = this.of(id) ?? { base, edits: NO_EDITS, history: [] };
    this.#set(id, { base: initialBase, edits, history: [...history, before].slice(-MAX_UNDO_STEPS) });
  }

  undo(id: string): void {
    const draft = this.of(id);
    if (draft)
      this.#set(id, { ...draft, edits: draft.history.at(-1) ?? NO_EDITS, history: draft.history.slice(0, -1) });
  }

  /** Move to another revision; clears the undo history. */
  rebase(id: string, base: number, edits: Edits): void {
    this.#set(id, { base, edits, history: [] });
  }

  discard(id: string): void {
    this.#set(id, undefined);
  }

  #set(id: string, draft: TestsetDraft | undefined): void {
    const drafts = new Map(this.state.getState());
    if (draft && !isEmpty(draft.edits)) drafts.set(id, draft);
    else drafts.delete(id);
    this.state.setState(drafts, true);
  }
}

export const drafts = new Drafts();

export const useDraft = (id: string): TestsetDraft | undefined => useStore(drafts.state, (all) => all.get(id));

/** Rows of the grid: those of the revision with edits applied, and added ones. */
export interface GridEntry {
  /** Row id, or key of an added row. */
  key: string;
  /** Null for an added row. */
  row: TestsetRow | null;
  added: AddedRow | null;
}

/** `isPartial`: the rows are search results; rows added at the top or at the end are left out. */
export function gridEntries(rows: readonly TestsetRow[], { added, removed }: Edits, isPartial: boolean): GridEntry[] {
  const addedAfter = new Map<string | null | undefined, GridEntry[]>();
  for (const row of added)
    addedAfter.set(row.after, [...(addedAfter.get(row.after) ?? []), { key: row.key, row: null, added: row }]);
  const entries = isPartial ? [] : [...(addedAfter.get(null) ?? [])];
  for (const row of rows) {
    if (!removed.has(row.id)) entries.push({ key: row.id, row, added: null });
    const next = addedAfter.get(row.id);
    if (next) entries.push(...next);
  }
  return isPartial ? entries : [...entries, ...(addedAfter.get(undefined) ?? [])];
}

export const entryData = ({ key, row, added }: GridEntry, edits: Edits): RowData =>
  row ? applyPatch(key, row.data, edits) : (added?.data ?? {});

/** Whether the cell differs from the revision. */
export function isCellChanged({ key, row }: GridEntry, column: string, edits: Edits): boolean {
  const patch = row ? edits.patches.get(key) : undefined;
  return patch !== undefined && (Object.hasOwn(patch.set, column) || patch.unset.includes(column));
}

/** Full size in bytes of a cell that the page of rows has cut; 0 if complete. */
export function cutCellBytes({ row }: GridEntry, column: string, storedName: string | null): number {
  const cutBytes = row?.cut ?? {};
  const name = storedName ?? column;
  return Object.hasOwn(cutBytes, name) ? (cutBytes[name] ?? 0) : 0;
}

/** Width of the row numbers in pixels. */
export const GUTTER_WIDTH = 80;

export interface CellPosition {
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
