/** Where a thread is looked at: in its cell of a board, or alone. */
import type { Board } from '@/api/types';

/** The address of a thread. The board is looked up when it is followed: a row knows its board, not its cell. */
export function placeOf(thread: string, board: Pick<Board, 'id' | 'cells'> | undefined): string {
  const cell = board?.cells.find((one) => one.thread === thread);
  return board && cell ? `/play/${board.id}?cell=${encodeURIComponent(`${cell.row}.${cell.column}`)}` : `/play/${thread}`;
}

/** The thread that an address shows, if it names one. */
export function threadAt(what: string | undefined, cell: string | null, board: Pick<Board, 'cells'> | undefined): string | null {
  if (what?.startsWith('conv_')) return what;
  if (!cell) return null;
  return board?.cells.find((one) => `${one.row}.${one.column}` === cell)?.thread ?? null;
}
