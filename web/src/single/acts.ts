/** What can be done with the cells and rows of a board in single mode. */
import { useQueryClient } from '@tanstack/react-query';
import { useMemo } from 'react';
import { ApiError, api } from '@/api/client';
import type { Row } from '@/api/types';
import { useBoardStore } from '@/board/board-state';
import type { BoardStore } from '@/board/board-store';
import { tellError } from '@/components/toast';
import { refreshRuns } from './board-runs';
import { type Inputs, MOST_ROWS, added, duplicated } from './rows';

export type Which = 'all' | 'empty' | 'failed' | [row: string, column: string][];

export interface Acts {
  run: (cells: Which) => void;
  runRow: (row: string) => void;
  stop: (run: string) => void;
  stopAll: () => void;
  add: (inputs: readonly Inputs[]) => void;
  duplicate: (row: string) => void;
  remove: (row: string) => void;
  change: (row: string, inputs: Inputs) => void;
}

/** How many go on at once, as this board has it. */
export const concurrencyOf = (layout: Readonly<Record<string, unknown>>): number =>
  typeof layout.concurrency === 'number' && layout.concurrency >= 1 && layout.concurrency <= 16 ? layout.concurrency : 4;

export function useActs(): Acts {
  const store = useBoardStore();
  const client = useQueryClient();
  return useMemo(() => {
    const rows = (update: (rows: Row[]) => Row[]): void => store.change((board) => ({ ...board, rows: update(board.rows) }));
    const begin = async (cells: Which): Promise<void> => {
      await begun(store, cells);
      await store.refresh(); // Its cells hold other runs now.
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
      run: (cells) => void begin(cells).catch(tellError),
      runRow: (row) => void begin(store.board.columns.map((column) => [row, column.id])).catch(tellError),
      stop: (run) => void stop(run).catch(tellError),
      stopAll: () => void stopAll().catch(tellError),
      add: (inputs) => rows((now) => added(now, inputs)),
      duplicate: (row) => rows((now) => (now.length < MOST_ROWS ? duplicated(now, row) : now)),
      remove: (row) => rows((now) => now.filter(({ id }) => id !== row)),
      change: (row, inputs) => rows((now) => now.map((one) => (one.id === row ? { ...one, inputs } : one))),
    };
  }, [store, client]);
}

async function begun(store: BoardStore, cells: Which): Promise<void> {
  const board = await store.ensure();
  const body = { cells, concurrency: concurrencyOf(board.layout) };
  const ask = () => api('post', '/api/boards/{board}/run', { path: { board: board.id }, body });
  try {
    await ask();
  } catch (error) {
    // Another tab saved the board at this very moment; what is to be run is still the same.
    if (!(error instanceof ApiError) || error.code !== 'stale_base') throw error;
    await ask();
  }
}
