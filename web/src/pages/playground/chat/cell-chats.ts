/** Chats of a board's cells, created when first shown and kept while their row and column exist. */
import { generateId } from 'ai';
import { api } from '@/api/client';
import { queryClient, workflowQuery } from '@/api/queries';
import type { Thread } from '@/api/types';
import type { BoardStore } from '@/pages/playground/board-store';
import { CellChat } from './cell-chat';

export interface CellName {
  row: string;
  column: string;
}

export const cellKey = ({ row, column }: CellName): string => `${row}.${column}`;

/** The inputs of a row that the workflow accepts. Columns may differ; messages come from the thread. */
export function acceptedInputs(
  inputs: Record<string, unknown>,
  schema: { properties?: unknown; additionalProperties?: unknown } | undefined,
): Record<string, unknown> {
  const { properties, additionalProperties } = schema ?? {};
  const known = properties && typeof properties === 'object' && additionalProperties === false ? properties : null;
  return Object.fromEntries(
    Object.entries(inputs).filter(([name]) => name !== 'messages' && (known === null || name in known)),
  );
}

export class CellChats {
  #store: BoardStore;
  #forked: (thread: Thread) => void;
  #chats = new Map<string, { name: CellName; chat: CellChat }>();
  /** End of a cell's branch according to the URL. */
  #at: { cell: string; message: string } | null;

  constructor(
    store: BoardStore,
    forked: (thread: Thread) => void,
    at: { cell: string; message: string } | null = null,
  ) {
    this.#store = store;
    this.#forked = forked;
    this.#at = at;
    store.state.subscribe(() => this.#follow());
  }

  get(name: CellName): CellChat {
    const key = cellKey(name);
    const known = this.#chats.get(key);
    if (known) return known.chat;
    const chat = this.#make(name);
    this.#chats.set(key, { name, chat });
    return chat;
  }

  /** Chats of all cells, in board order. */
  all(): CellChat[] {
    const { rows, columns } = this.#store.board;
    return rows.flatMap((row) => columns.map((column) => this.get({ row: row.id, column: column.id })));
  }

  /** Handle board changes: ids may be reused, and other tabs fill cells. */
  #follow(): void {
    const { rows, columns } = this.#store.board;
    const stays = ({ row, column }: CellName) =>
      rows.some(({ id }) => id === row) && columns.some(({ id }) => id === column);
    for (const [key, { name }] of this.#chats) if (!stays(name)) this.#chats.delete(key);
    for (const { name, chat } of this.#chats.values()) {
      const thread = chat.thread === null ? this.#thread(name) : null;
      if (thread !== null) chat.adopt(thread);
    }
  }

  #thread({ row, column }: CellName): string | null {
    return this.#store.board.cells.find((cell) => cell.row === row && cell.column === column)?.thread ?? null;
  }

  #make({ row, column }: CellName): CellChat {
    const store = this.#store;
    const place = () => {
      const {
        workflow = '',
        variant = 'default',
        parameters = {},
      } = store.board.columns.find((one) => one.id === column) ?? {};
      const { inputs = {} } = store.board.rows.find((one) => one.id === row) ?? {};
      const schema = queryClient.getQueryData(workflowQuery(workflow).queryKey)?.schemas.inputs;
      return { workflow, variant, parameters, inputs: acceptedInputs(inputs, schema) };
    };
    let attempt = generateId();
    return new CellChat({
      thread: this.#thread({ row, column }),
      at: this.#at?.cell === cellKey({ row, column }) ? this.#at.message : null,
      place,
      make: async () => {
        const board = await store.ensure();
        const body = { ...place(), cell: { board: board.id, row, column } };
        // Idempotent: a retry after a lost response returns the same thread.
        const made = await api('post', '/api/threads', { body, headers: { 'idempotency-key': attempt } });
        attempt = generateId();
        store.filled(row, column, { thread: made.id });
        return made;
      },
      forked: this.#forked,
    });
  }
}
