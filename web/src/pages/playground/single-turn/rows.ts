/** Rows of a single-turn board and actions on them. */
import { useQueryClient } from '@tanstack/react-query';
import { useMemo } from 'react';
import { ApiError, api, type Row } from '@/api/client';
import { type JsonSchema, isObject } from '@/components/forms/json-schema';
import { showError } from '@/components/toast';
import { useBoardStore, type BoardStore } from '@/pages/playground/board-store';
import { refreshRuns } from './runs';

export const MAX_ROWS = 1000;

export type RowInputValues = Record<string, unknown>;

/** Append rows with unused ids. */
export function addRows(rows: readonly Row[], inputs: readonly RowInputValues[]): Row[] {
  const usedIds = new Set(rows.map(({ id }) => id));
  let number = rows.length;
  const nextId = (): string => {
    do number += 1;
    while (usedIds.has(`r${number}`));
    return `r${number}`;
  };
  return [
    ...rows,
    ...inputs.slice(0, MAX_ROWS - rows.length).map((rowInputs) => ({ id: nextId(), name: '', inputs: rowInputs })),
  ];
}

/** Insert a copy below the row. */
export function duplicateRow(rows: readonly Row[], id: string): Row[] {
  const index = rows.findIndex((row) => row.id === id);
  const copies = addRows(rows, [structuredClone(rows[index]?.inputs ?? {})]).slice(rows.length);
  return [...rows.slice(0, index + 1), ...copies, ...rows.slice(index + 1)];
}

/** Merge the input schemas of several columns. */
export function mergeSchemas(schemas: readonly JsonSchema[]): JsonSchema {
  const [only, ...others] = schemas;
  if (only && !others.length) return only;
  const parts = schemas.map((schema, index) => rebaseReferences(schema, `#/$defs/w${index}/$defs/`) as JsonSchema);
  return {
    type: 'object',
    properties: Object.assign({}, ...parts.toReversed().map(({ properties }) => properties)) as unknown,
    required: [...new Set(parts.flatMap(({ required }) => (Array.isArray(required) ? (required as string[]) : [])))],
    additionalProperties: parts.some(
      ({ additionalProperties }) => additionalProperties === true || isObject(additionalProperties),
    ),
    $defs: Object.fromEntries(parts.map(({ $defs }, index) => [`w${index}`, { $defs }])),
  };
}

/** Rebase references into `$defs`: two workflows may use one name for different things. */
function rebaseReferences(value: unknown, base: string): unknown {
  if (Array.isArray(value)) return value.map((item) => rebaseReferences(item, base));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [
      name,
      name === '$ref' && typeof item === 'string' ? item.replace(/^#\/\$defs\//, base) : rebaseReferences(item, base),
    ]),
  );
}

export type RunSelection = 'all' | 'empty' | 'failed' | [row: string, column: string][];

export interface RowActions {
  run: (cells: RunSelection) => void;
  runRow: (row: string) => void;
  stop: (run: string) => void;
  stopAll: () => void;
  add: (inputs: readonly RowInputValues[]) => void;
  duplicate: (row: string) => void;
  remove: (row: string) => void;
  change: (row: string, inputs: RowInputValues) => void;
}

/** Number of concurrent runs of this board. */
export const boardConcurrency = (layout: Readonly<Record<string, unknown>>): number =>
  typeof layout.concurrency === 'number' && layout.concurrency >= 1 && layout.concurrency <= 16
    ? layout.concurrency
    : 4;

export function useRowActions(): RowActions {
  const store = useBoardStore();
  const client = useQueryClient();
  return useMemo(() => {
    const changeRows = (update: (rows: Row[]) => Row[]): void =>
      store.change((board) => ({ ...board, rows: update(board.rows) }));
    const start = async (cells: RunSelection): Promise<void> => {
      await startRuns(store, cells);
      await store.refresh(); // Its cells have other runs now.
    };
    const stop = async (run: string): Promise<void> => {
      await api('post', '/api/runs/{run}/cancel', { path: { run } });
      await Promise.all([refreshRuns(client, store.board.id), client.invalidateQueries({ queryKey: ['run', run] })]);
    };
    const stopAll = async (): Promise<void> => {
      await api('post', '/api/boards/{board}/cancel', { path: { board: store.board.id } });
      await refreshRuns(client, store.board.id);
    };
    return {
      run: (cells) => void start(cells).catch(showError),
      runRow: (row) => void start(store.board.columns.map((column) => [row, column.id])).catch(showError),
      stop: (run) => void stop(run).catch(showError),
      stopAll: () => void stopAll().catch(showError),
      add: (inputs) => changeRows((old) => addRows(old, inputs)),
      duplicate: (row) => changeRows((old) => (old.length < MAX_ROWS ? duplicateRow(old, row) : old)),
      remove: (row) => changeRows((old) => old.filter(({ id }) => id !== row)),
      change: (row, inputs) => changeRows((old) => old.map((item) => (item.id === row ? { ...item, inputs } : item))),
    };
  }, [store, client]);
}

async function startRuns(store: BoardStore, cells: RunSelection): Promise<void> {
  const board = await store.ensure();
  const body = { cells, concurrency: boardConcurrency(board.layout) };
  const requestRun = () => api('post', '/api/boards/{board}/run', { path: { board: board.id }, body });
  try {
    await requestRun();
  } catch (error) {
    // Another tab saved the board at the same moment; retry.
    if (!(error instanceof ApiError) || error.code !== 'stale_base') throw error;
    await requestRun();
  }
}
