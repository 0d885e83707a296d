/** The chats of a board's cells: each is made when it is first shown, and stays while the board is. */
import { api } from '@/api/api';
import type { Thread } from '@/api/types';
import { CellChat } from '@/chat/cell-chat';
import type { BoardStore } from './board-store';

export interface CellName {
  row: string;
  column: string;
}

export const nameOf = ({ row, column }: CellName): string => `${row}.${column}`;

export class Cells {
  #store: BoardStore;
  #forked: (thread: Thread) => void;
  #chats = new Map<string, CellChat>();
  /** Where the address says that a cell's branch ends. */
  #at: { cell: string; message: string } | null;

  constructor(store: BoardStore, forked: (thread: Thread) => void, at: { cell: string; message: string } | null = null) {
    this.#store = store;
    this.#forked = forked;
    this.#at = at;
  }

  get(name: CellName): CellChat {
    const key = nameOf(name);
    const known = this.#chats.get(key);
    if (known) return known;
    const made = this.#make(name);
    this.#chats.set(key, made);
    return made;
  }

  /** All that are shown, by the order of the board. */
  all(): CellChat[] {
    const { rows, columns } = this.#store.board;
    return rows.flatMap((row) => columns.map((column) => this.get({ row: row.id, column: column.id })));
  }

  /** Forget a cell: its row or column has gone. */
  drop(gone: (name: CellName) => boolean): void {
    for (const key of this.#chats.keys()) {
      const [row = '', column = ''] = key.split('.');
      if (gone({ row, column })) this.#chats.delete(key);
    }
  }

  #make({ row, column }: CellName): CellChat {
    const store = this.#store;
    const place = () => {
      const { workflow = '', variant = 'default', parameters = {} } = store.board.columns.find((one) => one.id === column) ?? {};
      const { inputs = {} } = store.board.rows.find((one) => one.id === row) ?? {};
      return { workflow, variant, parameters, inputs };
    };
    const thread = store.board.cells.find((cell) => cell.row === row && cell.column === column)?.thread ?? null;
    return new CellChat({
      thread,
      at: this.#at?.cell === `${row}.${column}` ? this.#at.message : null,
      place,
      make: async () => {
        const board = await store.ensure();
        const made = await api('post', '/api/threads', { body: { ...place(), cell: { board: board.id, row, column } } });
        store.filled(row, column, { thread: made.id });
        return made;
      },
      forked: this.#forked,
    });
  }
}
