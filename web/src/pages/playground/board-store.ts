/**
 * A board and its local changes. Changes apply at once and are saved whole after a delay; cells belong to the server.
 * A new board exists only locally until `ensure` creates it.
 */
import { createContext, useContext } from 'react';
import { createStore, useStore, type StoreApi } from 'zustand';
import { ApiError, api, fetchOk, type Board } from '@/api/client';
import { showError } from '@/components/toast';

export type BoardDraft = Pick<Board, 'name' | 'mode' | 'columns' | 'rows' | 'layout'>;
const SAVE_DELAY_MS = 400;
const SAVE_RETRY_DELAY_MS = 5000;

export class BoardStore {
  readonly state: StoreApi<Board>;
  /** Last known state of the server. */
  #base: Board;
  #etag: string | null;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #creation: Promise<void> | null = null;
  #saving: Promise<void> = Promise.resolve();
  #unsaved = false;
  #isSaving = false;
  #saveCount = 0;
  /** Rows and columns removed since the last save: a new one with the same id must not inherit their cells. */
  #removedLines = new Set<string>();

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

  /** Apply a change and schedule a save (a draft is saved on first use). */
  change(update: (board: Board) => Board): void {
    const before = this.board;
    const after = update(before);
    if (after === before) return;
    const remaining = new Set(lineNames(after));
    for (const line of lineNames(before)) if (!remaining.has(line)) this.#removedLines.add(line);
    this.#unsaved = true;
    this.#set({
      ...after,
      cells: after.cells.filter((cell) => remaining.has(`row ${cell.row}`) && remaining.has(`column ${cell.column}`)),
    });
    if (this.board.id) this.#scheduleSave(SAVE_DELAY_MS);
  }

  /** Create the board if needed and save pending changes, so that its cells can be filled. */
  async ensure(): Promise<Board> {
    if (!this.board.id) {
      this.#creation ??= this.#create().finally(() => {
        this.#creation = null;
      });
      await this.#creation;
    }
    await this.save();
    return this.board;
  }

  /** Save pending changes. Saves are sequential, so the last change wins. */
  save(): Promise<void> {
    clearTimeout(this.#timer);
    this.#saving = this.#saving.catch(() => {}).then(() => this.#saveNow());
    return this.#saving;
  }

  /** Take over the server's state: cells always, the rest only without unsaved changes. */
  async refresh(): Promise<void> {
    if (!this.board.id) return;
    const saveCountBefore = this.#saveCount;
    const { board, etag } = await fetchBoard(this.board.id);
    if (this.#unsaved || this.#isSaving) this.#set({ ...this.board, cells: this.#cellsOf(board) });
    else if (saveCountBefore === this.#saveCount) this.#adopt(board, etag);
    else await this.refresh(); // A save finished in the meantime: fetch again.
  }

  /** Fill a cell before the server's notice arrives. */
  fillCell(row: string, column: string, content: { thread?: string; run?: string }): void {
    const others = this.board.cells.filter((cell) => cell.row !== row || cell.column !== column);
    const before = this.board.cells.find((cell) => cell.row === row && cell.column === column);
    this.#set({ ...this.board, cells: [...others, { row, column, thread: null, run: null, ...before, ...content }] });
  }

  async #create(): Promise<void> {
    const { name, mode, columns, rows, layout } = this.board;
    this.#unsaved = false;
    const response = await sendBoard('POST', '/api/boards', { name, mode, columns, rows, layout });
    const created = (await response.json()) as Board;
    this.#removedLines.clear();
    this.#etag = response.headers.get('etag');
    this.#base = created;
    this.#set(this.#unsaved ? { ...this.board, id: created.id } : created);
  }

  async #saveNow(): Promise<void> {
    if (!this.#unsaved || !this.board.id) return;
    const { name, mode, columns, rows, layout, testset, id } = this.board;
    const removed = new Set(this.#removedLines);
    this.#unsaved = false;
    this.#isSaving = true;
    this.#removedLines.clear();
    try {
      const body = { name, mode, columns, rows, layout, testset, ...remainingCells(this.board, removed) };
      const response = await sendBoard('PUT', `/api/boards/${id}`, body, this.#etag);
      const board = (await response.json()) as Board;
      this.#saveCount += 1;
      this.#etag = response.headers.get('etag');
      this.#base = board;
      this.#set(this.#unsaved ? this.board : { ...board, cells: this.#cellsOf(board, true) });
    } catch (error) {
      for (const line of removed) this.#removedLines.add(line);
      this.#unsaved = true;
      if (!isStale(error)) throw error;
      await this.#merge(id, error);
    } finally {
      this.#isSaving = false;
    }
  }

  /** Three-way merge after a conflict: keeps one-sided changes; if both sides changed a field, theirs wins. */
  async #merge(id: string, cause: unknown): Promise<void> {
    const { board: theirs, etag } = await fetchBoard(id);
    const { board, hasLocalChanges, isOverruled } = mergeBoards(this.board, this.#base, theirs);
    this.#adopt(theirs, etag);
    this.#set({ ...board, cells: this.#cellsOf(theirs) });
    this.#unsaved = hasLocalChanges;
    if (hasLocalChanges) this.#scheduleSave(0);
    if (isOverruled) throw new Error('This board was changed elsewhere. Showing the latest version.', { cause });
  }

  #scheduleSave(milliseconds: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.save().catch((error: unknown) => {
        // While the server is unreachable, retry silently; the banner already says so.
        if (error instanceof ApiError && error.status === 0) this.#scheduleSave(SAVE_RETRY_DELAY_MS);
        else showError(error);
      });
    }, milliseconds);
  }

  #adopt(board: Board, etag: string | null): void {
    this.#etag = etag;
    this.#base = board;
    this.#removedLines.clear();
    if (isDifferent(board, this.board)) this.#set(board);
  }

  /** Server cells in our rows and columns; with `isOlder` also cells that were filled since. */
  #cellsOf(theirs: Board, isOlder = false): Board['cells'] {
    const { board } = this;
    const ownLines = new Set(lineNames(board).filter((line) => !this.#removedLines.has(line)));
    const cells = theirs.cells.filter(
      (cell) => ownLines.has(`row ${cell.row}`) && ownLines.has(`column ${cell.column}`),
    );
    const filledSince = board.cells.filter(
      (cell) => isOlder && !cells.some((other) => other.row === cell.row && other.column === cell.column),
    );
    return [...cells, ...filledSince];
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

/** Cells that stay, if a removed id is in use again; the server drops the others by itself. */
function remainingCells(
  { rows, columns }: Board,
  removed: ReadonlySet<string>,
): { cells?: { row: string; column: string }[] } {
  if (!lineNames({ rows, columns }).some((line) => removed.has(line))) return {};
  const remainingColumns = columns.filter(({ id }) => !removed.has(`column ${id}`));
  return {
    cells: rows
      .filter(({ id }) => !removed.has(`row ${id}`))
      .flatMap((row) => remainingColumns.map((column) => ({ row: row.id, column: column.id }))),
  };
}

async function fetchBoard(id: string, signal?: AbortSignal): Promise<{ board: Board; etag: string | null }> {
  const response = await fetchOk(`/api/boards/${encodeURIComponent(id)}`, signal ? { signal } : {});
  return { board: (await response.json()) as Board, etag: response.headers.get('etag') };
}

function sendBoard(method: 'POST' | 'PUT', path: string, body: unknown, etag: string | null = null): Promise<Response> {
  const headers = { 'content-type': 'application/json', ...(etag ? { 'if-match': etag } : {}) };
  const text = JSON.stringify(body);
  // `keepalive` lets a closing tab finish the save.
  return fetchOk(path, { method, headers, body: text, keepalive: text.length < 30_000 });
}

/** First unused id (`c1`, `c2`, …). */
export function freeId(kind: 'c' | 'r', used: readonly { id: string }[]): string {
  for (let number = 1; ; number++) {
    if (!used.some(({ id }) => id === `${kind}${number}`)) return `${kind}${number}`;
  }
}

/** Delete a board; its threads stay. */
export async function deleteBoard(id: string): Promise<void> {
  await api('delete', '/api/boards/{board}', { path: { board: id } });
}

const MERGED_FIELDS = ['name', 'mode', 'columns', 'rows', 'layout', 'testset'] as const;

export interface MergeResult {
  board: Board;
  /** Whether the result has changes that the server does not. */
  hasLocalChanges: boolean;
  /** Whether a local change was overruled. */
  isOverruled: boolean;
}

/** Three-way merge by field: keeps one-sided changes; if both sides changed a field, theirs wins. */
export function mergeBoards(ours: Board, base: Board, theirs: Board): MergeResult {
  const board: Board = { ...theirs };
  let hasLocalChanges = false;
  let isOverruled = false;
  for (const name of MERGED_FIELDS) {
    if (!isDifferent(ours[name], base[name]) || !isDifferent(ours[name], theirs[name])) continue;
    if (isDifferent(theirs[name], base[name])) isOverruled = true;
    else {
      hasLocalChanges = true;
      Object.assign(board, { [name]: ours[name] });
    }
  }
  return { board, hasLocalChanges, isOverruled };
}

/** Deep inequality of JSON values, ignoring key order. */
export function isDifferent(one: unknown, other: unknown): boolean {
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return one !== other;
  if (Array.isArray(one) !== Array.isArray(other)) return true;
  const [first, second] = [one as Record<string, unknown>, other as Record<string, unknown>];
  const names = new Set([...Object.keys(first), ...Object.keys(second)]);
  return [...names].some((name) => isDifferent(first[name], second[name]));
}

export const BoardContext = createContext<BoardStore | null>(null);

export function useBoardStore(): BoardStore {
  const store = useContext(BoardContext);
  if (!store) throw new Error('No board around this component.');
  return store;
}

export function useBoard(): Board {
  return useStore(useBoardStore().state);
}
