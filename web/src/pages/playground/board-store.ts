/**
 * A board as this tab sees it. Changes show at once and are saved a moment later, whole; the cells are the server's.
 * A board that nobody has sent in yet is only here: `ensure` makes it. Knows no React (board-state.ts binds it).
 */
import { createContext, useContext } from 'react';
import { createStore, useStore, type StoreApi } from 'zustand';
import { ApiError, api, fetchOk } from '@/api/client';
import type { Board } from '@/api/types';
import { showError } from '@/components/toast';

export type BoardDraft = Pick<Board, 'name' | 'mode' | 'columns' | 'rows' | 'layout'>;
const SAVE_DELAY_MS = 400;
const SAVE_RETRY_DELAY_MS = 5000;

export class BoardStore {
  readonly state: StoreApi<Board>;
  /** As the server has it, as far as we know. */
  #base: Board;
  #etag: string | null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #making: Promise<void> | null = null;
  #saving: Promise<void> = Promise.resolve();
  #unsaved = false;
  #putting = false;
  #saves = 0;
  /** Rows and columns that went since the board was saved: a new one of that name does not get their cells. */
  #gone = new Set<string>();

  constructor(board: Board, etag: string | null) {
    this.state = createStore<Board>(() => board);
    this.#base = board;
    this.#etag = etag;
  }

  get board(): Board {
    return this.state.getState();
  }

  static draft(draft: BoardDraft): BoardStore {
    const now = new Date().toISOString();
    return new BoardStore({ ...draft, id: '', cells: [], testset: null, created_at: now, updated_at: now }, null);
  }

  static async open(id: string, signal?: AbortSignal): Promise<BoardStore> {
    const { board, etag } = await fetchBoard(id, signal);
    return new BoardStore(board, etag);
  }

  /** Change the board. Kept at once here, on the server soon (a draft: when it is first used). */
  change(update: (board: Board) => Board): void {
    const before = this.board;
    const after = update(before);
    if (after === before) return;
    const stays = new Set(lineNames(after));
    for (const line of lineNames(before)) if (!stays.has(line)) this.#gone.add(line);
    this.#unsaved = true;
    this.#set({
      ...after,
      cells: after.cells.filter((cell) => stays.has(`row ${cell.row}`) && stays.has(`column ${cell.column}`)),
    });
    if (this.board.id) this.#saveIn(SAVE_DELAY_MS);
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
    const saves = this.#saves;
    const { board, etag } = await fetchBoard(this.board.id);
    if (this.#unsaved || this.#putting) this.#set({ ...this.board, cells: this.#cellsOf(board) });
    else if (saves === this.#saves) this.#take(board, etag);
    else await this.refresh(); // It was saved while it was read.
  }

  /** A cell that was just filled, before the server's notice of it arrives. */
  filled(row: string, column: string, what: { thread?: string; run?: string }): void {
    const others = this.board.cells.filter((cell) => cell.row !== row || cell.column !== column);
    const before = this.board.cells.find((cell) => cell.row === row && cell.column === column);
    this.#set({ ...this.board, cells: [...others, { row, column, thread: null, run: null, ...before, ...what }] });
  }

  async #make(): Promise<void> {
    const { name, mode, columns, rows, layout } = this.board;
    this.#unsaved = false;
    const answer = await sendBoard('POST', '/api/boards', { name, mode, columns, rows, layout });
    const made = (await answer.json()) as Board;
    this.#gone.clear();
    this.#etag = answer.headers.get('etag');
    this.#base = made;
    this.#set(this.#unsaved ? { ...this.board, id: made.id } : made);
  }

  async #put(): Promise<void> {
    if (!this.#unsaved || !this.board.id) return;
    const { name, mode, columns, rows, layout, testset, id } = this.board;
    const gone = new Set(this.#gone);
    this.#unsaved = false;
    this.#putting = true;
    this.#gone.clear();
    try {
      const body = { name, mode, columns, rows, layout, testset, ...keptCells(this.board, gone) };
      const answer = await sendBoard('PUT', `/api/boards/${id}`, body, this.#etag);
      const board = (await answer.json()) as Board;
      this.#saves += 1;
      this.#etag = answer.headers.get('etag');
      this.#base = board;
      this.#set(this.#unsaved ? this.board : { ...board, cells: this.#cellsOf(board, true) });
    } catch (error) {
      for (const one of gone) this.#gone.add(one);
      this.#unsaved = true;
      if (!isStale(error)) throw error;
      await this.#merge(id, error);
    } finally {
      this.#putting = false;
    }
  }

  /** Somebody else has saved it: what only one of us changed is both of ours; what both changed is theirs. */
  async #merge(id: string, cause: unknown): Promise<void> {
    const { board: theirs, etag } = await fetchBoard(id);
    const { board, isOurs, isLost } = mergeBoards(this.board, this.#base, theirs);
    this.#take(theirs, etag);
    this.#set({ ...board, cells: this.#cellsOf(theirs) });
    this.#unsaved = isOurs;
    if (isOurs) this.#saveIn(0);
    if (isLost) throw new Error('This board was changed elsewhere; what is shown now is the newer one.', { cause });
  }

  #saveIn(milliseconds: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.save().catch((error: unknown) => {
        // Where the server is only away, trying again is better than telling. A line above the page tells that.
        if (error instanceof ApiError && error.status === 0) this.#saveIn(SAVE_RETRY_DELAY_MS);
        else showError(error);
      });
    }, milliseconds);
  }

  #take(board: Board, etag: string | null): void {
    this.#etag = etag;
    this.#base = board;
    this.#gone.clear();
    if (isDifferent(board, this.board)) this.#set(board);
  }

  /** The server's cells in rows and columns that we have; and, where it may not know them yet, those filled since. */
  #cellsOf(theirs: Board, isOlder = false): Board['cells'] {
    const { board } = this;
    const ours = new Set(lineNames(board).filter((line) => !this.#gone.has(line)));
    const cells = theirs.cells.filter((cell) => ours.has(`row ${cell.row}`) && ours.has(`column ${cell.column}`));
    const since = board.cells.filter(
      (cell) => isOlder && !cells.some((one) => one.row === cell.row && one.column === cell.column),
    );
    return [...cells, ...since];
  }

  #set(board: Board): void {
    this.state.setState(board, true);
  }
}

const lineNames = ({ rows, columns }: Pick<Board, 'rows' | 'columns'>): string[] => [
  ...rows.map(({ id }) => `row ${id}`),
  ...columns.map(({ id }) => `column ${id}`),
];

const isStale = (error: unknown): boolean =>
  error instanceof ApiError && (error.code === 'stale_base' || error.status === 412);

/** The server drops the cells of rows and columns that are gone by itself; those that are there again it would keep. */
function keptCells({ rows, columns }: Board, gone: ReadonlySet<string>): { cells?: { row: string; column: string }[] } {
  if (!lineNames({ rows, columns }).some((line) => gone.has(line))) return {};
  const old = columns.filter(({ id }) => !gone.has(`column ${id}`));
  return {
    cells: rows
      .filter(({ id }) => !gone.has(`row ${id}`))
      .flatMap((row) => old.map((column) => ({ row: row.id, column: column.id }))),
  };
}

async function fetchBoard(id: string, signal?: AbortSignal): Promise<{ board: Board; etag: string | null }> {
  const answer = await fetchOk(`/api/boards/${encodeURIComponent(id)}`, signal ? { signal } : {});
  return { board: (await answer.json()) as Board, etag: answer.headers.get('etag') };
}

function sendBoard(method: 'POST' | 'PUT', path: string, body: unknown, etag: string | null = null): Promise<Response> {
  const headers = { 'content-type': 'application/json', ...(etag ? { 'if-match': etag } : {}) };
  const text = JSON.stringify(body);
  // A tab that is being closed still saves, as far as browsers let it.
  return fetchOk(path, { method, headers, body: text, keepalive: text.length < 30_000 });
}

/** For a column or row: the first free name of its kind (`c1`, `c2`, …). */
export function freeId(kind: 'c' | 'r', taken: readonly { id: string }[]): string {
  for (let number = 1; ; number++) {
    if (!taken.some(({ id }) => id === `${kind}${number}`)) return `${kind}${number}`;
  }
}

/** Deleting a board leaves its threads. */
export async function deleteBoard(id: string): Promise<void> {
  await api('delete', '/api/boards/{board}', { path: { board: id } });
}

const MERGED_FIELDS = ['name', 'mode', 'columns', 'rows', 'layout', 'testset'] as const;

/** Two versions of a board that come from one. Pure. */
export interface MergeResult {
  board: Board;
  /** Is something of ours in it that they do not have? */
  isOurs: boolean;
  /** Was something of ours dropped, because they changed it too? */
  isLost: boolean;
}

/** What only one side changed is taken from that side; what both changed is theirs. */
export function mergeBoards(ours: Board, base: Board, theirs: Board): MergeResult {
  const board: Board = { ...theirs };
  let isOurs = false;
  let isLost = false;
  for (const name of MERGED_FIELDS) {
    if (!isDifferent(ours[name], base[name]) || !isDifferent(ours[name], theirs[name])) continue;
    if (isDifferent(theirs[name], base[name])) isLost = true;
    else {
      isOurs = true;
      Object.assign(board, { [name]: ours[name] });
    }
  }
  return { board, isOurs, isLost };
}

/** Values of JSON; the order of an object's keys is the writer's own. */
export function isDifferent(one: unknown, other: unknown): boolean {
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return one !== other;
  if (Array.isArray(one) !== Array.isArray(other)) return true;
  const [first, second] = [one as Record<string, unknown>, other as Record<string, unknown>];
  const names = new Set([...Object.keys(first), ...Object.keys(second)]);
  return [...names].some((name) => isDifferent(first[name], second[name]));
}

/** The board of this view, for components. */
export const BoardContext = createContext<BoardStore | null>(null);

export function useBoardStore(): BoardStore {
  const store = useContext(BoardContext);
  if (!store) throw new Error('No board around this component.');
  return store;
}

export function useBoard(): Board {
  return useStore(useBoardStore().state);
}
