import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Board } from '@/api/client';
import { BoardStore, freeId } from './board-store';

const BOARD: Board = {
  id: 'brd_1',
  name: 'One',
  mode: 'chat',
  testset: null,
  layout: {},
  columns: [
    { id: 'c1', workflow: 'tutor', variant: 'default', parameters: {} },
    { id: 'c2', workflow: 'tutor', variant: 'default', parameters: {} },
  ],
  rows: [{ id: 'r1', name: '', inputs: {} }],
  cells: [
    { row: 'r1', column: 'c1', thread: 'conv_1', run: null },
    { row: 'r1', column: 'c2', thread: 'conv_2', run: null },
  ],
  created_at: '2026-01-01T00:00:00Z',
  updated_at: '2026-01-01T00:00:00Z',
};
const DRAFT = { name: '', mode: 'chat' as const, columns: BOARD.columns, rows: BOARD.rows, layout: {} };

interface SentRequest {
  method: string;
  path: string;
  etag: string | null;
  body: Partial<Board>;
}

/** A fake server with one board; a test can hold its responses. */
class Server {
  board: Board = BOARD;
  version = 1;
  requests: SentRequest[] = [];
  gate: Promise<void> = Promise.resolve();
  isOffline = false;

  fetch = async (path: string, init: RequestInit = {}): Promise<Response> => {
    const headers = new Headers(init.headers);
    const body = init.body ? (JSON.parse(String(init.body)) as Partial<Board>) : {};
    const method = init.method ?? 'GET';
    this.requests.push({ method, path, etag: headers.get('if-match'), body });
    const current = this.#response(); // A held read returns what was there before.
    await this.gate;
    if (this.isOffline) throw new TypeError('Failed to fetch');
    if (method === 'GET') return current;
    if (method === 'PUT' && headers.get('if-match') !== this.etag)
      return Response.json({ error: { code: 'stale_base', message: 'Changed.' } }, { status: 412 });
    const { cells, ...grid } = body;
    const remaining = cells
      ? this.board.cells.filter((cell) => cells.some((one) => one.row === cell.row && one.column === cell.column))
      : this.board.cells;
    this.board = { ...this.board, ...grid, cells: method === 'POST' ? [] : remaining };
    this.version += 1;
    return this.#response();
  };

  #response(): Response {
    return Response.json(this.board, { headers: { etag: this.etag } });
  }
  get etag(): string {
    return `"${this.version}"`;
  }
  get puts(): Partial<Board>[] {
    return this.requests.filter(({ method }) => method === 'PUT').map(({ body }) => body);
  }
  holdRequests(): () => void {
    let release = () => {};
    this.gate = new Promise((resolve) => {
      release = resolve;
    });
    return release;
  }
}

let server: Server;
beforeEach(() => {
  vi.useFakeTimers();
  server = new Server();
  vi.stubGlobal('fetch', server.fetch);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const settle = () => vi.advanceTimersByTimeAsync(0);
const openStore = () => new BoardStore(BOARD, '"1"');
const withName = (text: string) => (board: Board) => ({ ...board, name: text });
const GRID = { mode: 'chat', columns: BOARD.columns, rows: BOARD.rows, layout: {}, testset: null };

describe('a change', () => {
  test('is visible at once, and several are saved together as the whole board', async () => {
    const store = openStore();
    const listener = vi.fn();
    store.state.subscribe(listener);
    for (const text of ['T', 'Tw', 'Two']) store.change(withName(text));
    expect([store.board.name, listener.mock.calls.length, server.requests.length]).toEqual(['Two', 3, 0]);
    await vi.advanceTimersByTimeAsync(399);
    expect(server.requests).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(server.requests).toEqual([
      { method: 'PUT', path: '/api/boards/brd_1', etag: '"1"', body: { ...GRID, name: 'Two' } },
    ]);
    await vi.advanceTimersByTimeAsync(5000);
    expect(server.requests).toHaveLength(1);
  });

  test('without effect is not saved', async () => {
    const store = openStore();
    store.change((board) => board);
    await vi.advanceTimersByTimeAsync(1000);
    expect(server.requests).toEqual([]);
  });

  test('made during a save is saved afterwards with the new etag', async () => {
    const store = openStore();
    store.change(withName('Two'));
    const release = server.holdRequests();
    const saved = store.save();
    await settle();
    store.change(withName('Three'));
    release();
    await saved;
    expect(store.board.name).toBe('Three');
    await vi.advanceTimersByTimeAsync(400);
    expect(server.requests.map(({ etag, body }) => [etag, body.name])).toEqual([
      ['"1"', 'Two'],
      ['"2"', 'Three'],
    ]);
  });

  test('is saved again after the server was unreachable', async () => {
    const store = openStore();
    server.isOffline = true;
    store.change(withName('Two'));
    await vi.advanceTimersByTimeAsync(400);
    server.isOffline = false;
    await vi.advanceTimersByTimeAsync(5000);
    expect(server.board.name).toBe('Two');
  });
});

describe('a draft', () => {
  test('is created when needed, and only once', async () => {
    const store = BoardStore.draft(DRAFT);
    store.change(withName('Mine'));
    await vi.advanceTimersByTimeAsync(1000);
    expect(server.requests).toEqual([]);
    const boards = await Promise.all([store.ensure(), store.ensure(), store.ensure()]);
    expect(boards.map(({ id }) => id)).toEqual(['brd_1', 'brd_1', 'brd_1']);
    expect(server.requests).toEqual([
      { method: 'POST', path: '/api/boards', etag: null, body: { ...DRAFT, name: 'Mine' } },
    ]);
  });

  test('that is changed during its creation is saved before it is used', async () => {
    const store = BoardStore.draft(DRAFT);
    const release = server.holdRequests();
    const creation = store.ensure();
    await settle();
    store.change(withName('Late'));
    release();
    expect((await creation).name).toBe('Late');
    expect(server.requests.map(({ method, etag, body }) => [method, etag, body.name])).toEqual([
      ['POST', null, ''],
      ['PUT', '"2"', 'Late'],
    ]);
  });

  test('is created by the next attempt after a failure', async () => {
    const store = BoardStore.draft(DRAFT);
    server.isOffline = true;
    await expect(store.ensure()).rejects.toThrow('Cannot reach the server');
    server.isOffline = false;
    expect((await store.ensure()).id).toBe('brd_1');
  });
});

describe('a change by others', () => {
  test('is followed by a save with its etag', async () => {
    const store = openStore();
    server.board = { ...BOARD, name: 'Theirs' };
    server.version = 2;
    await store.refresh();
    expect(store.board.name).toBe('Theirs');
    store.change(withName('Ours'));
    await store.save();
    expect(server.requests.map(({ method, etag }) => [method, etag])).toEqual([
      ['GET', null],
      ['PUT', '"2"'],
    ]);
  });

  test('without effect does not notify listeners', async () => {
    const store = openStore();
    const listener = vi.fn();
    store.state.subscribe(listener);
    await store.refresh();
    expect(listener).not.toHaveBeenCalled();
  });

  test('does not overwrite unsaved changes, except for cells', async () => {
    const store = openStore();
    store.change(withName('Ours'));
    server.board = { ...BOARD, name: 'Theirs', cells: [{ row: 'r1', column: 'c1', thread: 'conv_9', run: null }] };
    await store.refresh();
    expect([store.board.name, store.board.cells]).toEqual([
      'Ours',
      [{ row: 'r1', column: 'c1', thread: 'conv_9', run: null }],
    ]);
  });

  test('does not overwrite changes that are being saved', async () => {
    const store = openStore();
    store.change(withName('Ours'));
    const release = server.holdRequests();
    const saved = store.save();
    await settle();
    server.gate = Promise.resolve();
    await store.refresh();
    expect(store.board.name).toBe('Ours');
    release();
    await saved;
    expect([store.board.name, server.board.name]).toEqual(['Ours', 'Ours']);
  });

  test('does not undo a save that ended during the refresh', async () => {
    const store = openStore();
    const release = server.holdRequests();
    const refreshed = store.refresh();
    server.gate = Promise.resolve();
    store.change(withName('Ours'));
    await store.save();
    const names: string[] = [];
    store.state.subscribe(({ name }) => names.push(name));
    release();
    await refreshed;
    expect([store.board.name, names.filter((name) => name !== 'Ours')]).toEqual(['Ours', []]);
    expect(server.requests.map(({ method }) => method)).toEqual(['GET', 'PUT', 'GET']);
  });

  test('is merged with ours if each side changed something else', async () => {
    const store = openStore();
    server.board = { ...BOARD, layout: { composer: 'cell' } };
    server.version = 2;
    store.change(withName('Ours'));
    await store.save();
    await vi.advanceTimersByTimeAsync(0);
    expect([store.board.name, store.board.layout]).toEqual(['Ours', { composer: 'cell' }]);
    expect([server.board.name, server.board.layout]).toEqual(['Ours', { composer: 'cell' }]);
  });

  test('wins if both sides changed the same field, and our save fails', async () => {
    const store = openStore();
    server.board = { ...BOARD, name: 'Theirs' };
    server.version = 2;
    store.change(withName('Ours'));
    await expect(store.save()).rejects.toThrow('changed elsewhere');
    await vi.advanceTimersByTimeAsync(1000);
    expect([store.board.name, server.board.name, server.puts.length]).toEqual(['Theirs', 'Theirs', 1]);
  });
});

describe('cells', () => {
  test('that were filled during a save are kept, although its response lacks them', async () => {
    const store = openStore();
    store.change(withName('Two'));
    const release = server.holdRequests();
    const saved = store.save();
    await settle();
    store.fillCell('r1', 'c1', { thread: 'conv_1' });
    store.change((board) => ({ ...board, rows: [...board.rows, { id: 'r2', name: '', inputs: {} }] }));
    store.fillCell('r2', 'c1', { thread: 'conv_3' });
    release();
    await saved;
    await store.save();
    expect(store.board.cells.map(({ row, column, thread }) => [row, column, thread])).toEqual([
      ['r1', 'c1', 'conv_1'],
      ['r1', 'c2', 'conv_2'],
      ['r2', 'c1', 'conv_3'],
    ]);
  });

  test('are not sent with a save, because the server may have filled others', async () => {
    const store = openStore();
    store.change((board) => ({ ...board, columns: board.columns.slice(0, 1) }));
    await store.save();
    expect([store.board.cells.length, 'cells' in (server.puts[0] ?? {})]).toEqual([1, false]);
  });

  test('of a removed column are not inherited by a new one with the same id', async () => {
    const store = openStore();
    const [first] = BOARD.columns;
    store.change((board) => ({ ...board, columns: board.columns.slice(0, 1) }));
    store.change((board) => ({
      ...board,
      columns: [
        ...board.columns,
        { id: freeId('c', board.columns), workflow: first?.workflow ?? '', variant: 'default', parameters: {} },
      ],
    }));
    await store.save();
    expect(server.puts.map(({ cells, columns }) => [columns?.map(({ id }) => id), cells])).toEqual([
      [['c1', 'c2'], [{ row: 'r1', column: 'c1' }]],
    ]);
    expect(store.board.cells).toEqual([BOARD.cells[0]]);
  });
});

test('finds the first unused id', () => {
  expect([freeId('c', []), freeId('c', [{ id: 'c1' }, { id: 'c3' }]), freeId('r', [{ id: 'c1' }])]).toEqual([
    'c1',
    'c2',
    'r1',
  ]);
});
