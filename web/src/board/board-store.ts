/**
 * A board as this tab sees it. Changes show at once and are saved a moment later, whole; the cells are the server's.
 * A board that nobody has sent in yet is only here: `ensure` makes it. Knows no React (board-state.ts binds it).
 */
import { ApiError, api, reached } from '@/api/api';
import type { Board } from '@/api/types';
import { tellError } from '@/ui/toast';

export type Draft = Pick<Board, 'name' | 'mode' | 'columns' | 'rows' | 'layout'>;
const SAVE_AFTER = 400;

export class BoardStore {
  board: Board;
  #etag: string | null;
  #listeners = new Set<() => void>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #making: Promise<Board> | null = null;
  #saving: Promise<void> = Promise.resolve();
  #unsaved = false;

  constructor(board: Board, etag: string | null) {
    this.board = board;
    this.#etag = etag;
  }

  static draft(draft: Draft): BoardStore {
    const now = new Date().toISOString();
    return new BoardStore({ ...draft, id: '', cells: [], testset: null, created_at: now, updated_at: now }, null);
  }

  static async open(id: string, signal?: AbortSignal): Promise<BoardStore> {
    const { board, etag } = await read(id, signal);
    return new BoardStore(board, etag);
  }

  subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Change the board. Kept at once here, on the server soon (a draft: when it is first used). */
  change(update: (board: Board) => Board): void {
    this.#become(update(this.board));
    this.#unsaved = true;
    if (!this.board.id) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.save().catch(tellError), SAVE_AFTER);
  }

  /** The board as the server has it, made if need be; after this its cells can be filled. */
  async ensure(): Promise<Board> {
    if (!this.board.id) {
      this.#making ??= this.#make().finally(() => {
        this.#making = null;
      });
      await this.#making;
    }
    await this.save();
    return this.board;
  }

  /** Save what is not saved yet. One after the other, so that the last change is the one that stays. */
  save(): Promise<void> {
    clearTimeout(this.#timer);
    this.#saving = this.#saving.catch(() => {}).then(() => this.#put());
    return this.#saving;
  }

  /** Take over what the server has now: cells always, the rest unless something here waits to be saved. */
  async refresh(): Promise<void> {
    if (!this.board.id) return;
    const { board, etag } = await read(this.board.id);
    if (this.#unsaved) this.#become({ ...this.board, cells: board.cells });
    else {
      this.#etag = etag;
      this.#become(board);
    }
  }

  /** A cell that was just filled, before the server's notice of it arrives. */
  filled(row: string, column: string, what: { thread?: string; run?: string }): void {
    const others = this.board.cells.filter((cell) => cell.row !== row || cell.column !== column);
    const before = this.board.cells.find((cell) => cell.row === row && cell.column === column);
    this.#become({ ...this.board, cells: [...others, { row, column, thread: null, run: null, ...before, ...what }] });
  }

  async #make(): Promise<Board> {
    const { name, mode, columns, rows, layout } = this.board;
    this.#unsaved = false;
    const answer = await send('POST', '/api/boards', { name, mode, columns, rows, layout });
    this.#etag = answer.headers.get('etag');
    const made = (await answer.json()) as Board;
    this.#become(this.#unsaved ? { ...this.board, id: made.id } : made);
    return made;
  }

  async #put(): Promise<void> {
    if (!this.#unsaved || !this.board.id) return;
    const { name, mode, columns, rows, cells, layout, testset, id } = this.board;
    const kept = cells.filter((cell) => rows.some((row) => row.id === cell.row) && columns.some((column) => column.id === cell.column));
    this.#unsaved = false;
    try {
      const answer = await send('PUT', `/api/boards/${id}`, { name, mode, columns, rows, layout, testset, cells: kept }, this.#etag);
      this.#etag = answer.headers.get('etag');
      const put = (await answer.json()) as Board;
      if (!this.#unsaved) this.#become(put);
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 'stale_base') {
        this.#unsaved = true;
        throw error;
      }
      await this.refresh();
      throw new Error('This board was changed elsewhere; what is shown now is the newer one.', { cause: error });
    }
  }

  #become(board: Board): void {
    this.board = board;
    for (const listener of this.#listeners) listener();
  }
}

async function read(id: string, signal?: AbortSignal): Promise<{ board: Board; etag: string | null }> {
  const answer = await reached(`/api/boards/${encodeURIComponent(id)}`, signal ? { signal } : {});
  return { board: (await answer.json()) as Board, etag: answer.headers.get('etag') };
}

function send(method: 'POST' | 'PUT', path: string, body: unknown, etag: string | null = null): Promise<Response> {
  const headers = { 'content-type': 'application/json', ...(etag ? { 'if-match': etag } : {}) };
  return reached(path, { method, headers, body: JSON.stringify(body) });
}

/** For a column or row: the first free name of its kind (`c1`, `c2`, …). */
export function free(kind: 'c' | 'r', taken: readonly { id: string }[]): string {
  for (let number = 1; ; number++) {
    if (!taken.some(({ id }) => id === `${kind}${number}`)) return `${kind}${number}`;
  }
}

/** Deleting a board leaves its threads. */
export async function deleteBoard(id: string): Promise<void> {
  await api('delete', '/api/boards/{board}', { path: { board: id } });
}
