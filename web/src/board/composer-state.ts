/** What is being written, and to whom. Pure. */
import type { Board } from '@/api/types';
import type { CellName } from './cells';

export type Target = 'all' | 'row' | 'cell';
export type Role = 'user' | 'assistant' | 'system';

/** The cells that hear what is sent. */
export function heardBy(board: Board, target: Target, active: CellName): CellName[] {
  const every = board.rows.flatMap((row) => board.columns.map((column) => ({ row: row.id, column: column.id })));
  if (target === 'all') return every;
  if (target === 'row') return every.filter((cell) => cell.row === active.row);
  return every.filter((cell) => cell.row === active.row && cell.column === active.column);
}

/** The cell before or after the active one, round the board. */
export function neighbour(board: Board, active: CellName, step: 1 | -1): CellName {
  const every = heardBy(board, 'all', active);
  const place = every.findIndex((cell) => cell.row === active.row && cell.column === active.column);
  const from = place < 0 && step < 0 ? 0 : place; // From one that has gone it is the first, or the last.
  return every[(from + step + every.length) % every.length] ?? active;
}
