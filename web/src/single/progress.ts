/** How far the cells of a board are. Pure. */
import type { Board, Run } from '@/api/types';
import { unreachable } from '@/lib/unreachable';
import { hasEnded } from '@/components/messages/run-output';

/** The runs of cells by their id; null: the server has it no more. */
export type Runs = Readonly<Record<string, Run | null>>;

export interface Progress {
  cells: number;
  /** Ended by themselves. */
  good: number;
  /** Failed, cancelled or interrupted. */
  failed: number;
  running: number;
  /** Waiting, or begun so lately that nothing is known of them. */
  queued: number;
  /** Never run. */
  empty: number;
}

export const cellKey = (row: string, column: string): string => `${row}.${column}`;

/** Which run each cell holds. */
export function runsByCell(board: Pick<Board, 'cells'>): Map<string, string> {
  return new Map(board.cells.flatMap(({ row, column, run }) => (run ? [[cellKey(row, column), run] as const] : [])));
}

export function progressOf(board: Pick<Board, 'rows' | 'columns' | 'cells'>, runs: Runs): Progress {
  const held = runsByCell(board);
  const progress: Progress = { cells: 0, good: 0, failed: 0, running: 0, queued: 0, empty: 0 };
  for (const row of board.rows) {
    for (const column of board.columns) {
      progress.cells += 1;
      progress[stateOf(held.get(cellKey(row.id, column.id)), runs)] += 1;
    }
  }
  return progress;
}

function stateOf(id: string | undefined, runs: Runs): Exclude<keyof Progress, 'cells'> {
  if (!id || runs[id] === null) return 'empty';
  const status = runs[id]?.status;
  switch (status) {
    case undefined:
    case 'queued':
      return 'queued';
    case 'running':
      return 'running';
    case 'finished':
      return 'good';
    case 'failed':
    case 'cancelled':
    case 'interrupted':
      return 'failed';
    default:
      return unreachable(status) ?? 'empty';
  }
}

/** Runs that may still change, or of which nothing is known yet. */
export function unsettled(wanted: readonly string[], runs: Runs): string[] {
  return wanted.filter((id) => {
    const run = runs[id];
    return run === undefined || (run !== null && !hasEnded(run));
  });
}
