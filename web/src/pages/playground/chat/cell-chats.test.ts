import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Board } from '@/api/types';
import { BoardStore } from '@/pages/playground/board-store';
import { CellChats, acceptedInputs } from './cell-chats';

const column = (id: string) => ({ id, workflow: 'tutor', variant: 'short', parameters: { t: 1 } });
const BOARD = {
  id: 'brd_1',
  name: '',
  mode: 'chat',
  testset: null,
  layout: {},
  columns: [column('c1'), column('c2')],
  rows: [
    { id: 'r1', name: '', inputs: { subject: 'physics' } },
    { id: 'r.2', name: '', inputs: {} },
  ],
  cells: [{ row: 'r1', column: 'c1', thread: 'conv_1', run: null }],
} as unknown as Board;
let asked: { path: string; body: unknown }[];

beforeEach(() => {
  asked = [];
  vi.stubGlobal('fetch', async (path: string, init: RequestInit = {}) => {
    asked.push({ path, body: init.body ? (JSON.parse(String(init.body)) as unknown) : null });
    if (path === '/api/threads') return Response.json({ id: 'conv_9' }, { status: 201 });
    if (path.endsWith('/messages')) return Response.json({ messages: [] }, { status: 201 });
    return Response.json({ error: { code: 'not_found', message: 'Not here.' } }, { status: 404 });
  });
});
afterEach(() => void vi.unstubAllGlobals());

const cells = () => {
  const store = new BoardStore(BOARD, '"1"');
  return { store, all: new CellChats(store, () => {}) };
};

test('every cell has one chat, with the thread that the board has for it', () => {
  const { all } = cells();
  const first = all.get({ row: 'r1', column: 'c1' });
  expect(all.get({ row: 'r1', column: 'c1' })).toBe(first);
  expect(all.all().map(({ thread }) => thread)).toEqual(['conv_1', null, null, null]);
});

test('the first word in a cell makes its thread, there', async () => {
  const { store, all } = cells();
  await all
    .get({ row: 'r1', column: 'c2' })
    .send([{ type: 'text', text: 'Hi' }], 'system')
    .catch(() => {});
  expect(asked[0]).toEqual({
    path: '/api/threads',
    body: {
      workflow: 'tutor',
      variant: 'short',
      parameters: { t: 1 },
      inputs: { subject: 'physics' },
      cell: { board: 'brd_1', row: 'r1', column: 'c2' },
    },
  });
  expect(store.board.cells.map(({ row, column: at, thread }) => [row, at, thread])).toEqual([
    ['r1', 'c1', 'conv_1'],
    ['r1', 'c2', 'conv_9'],
  ]);
});

test('a cell that another tab filled gets that thread', () => {
  const { store, all } = cells();
  const cell = all.get({ row: 'r1', column: 'c2' });
  store.filled('r1', 'c2', { thread: 'conv_2' });
  expect(cell.thread).toBe('conv_2');
});

test('a column or row that has gone takes its chats with it, though its name may come again', () => {
  const { store, all } = cells();
  const [kept, gone] = [all.get({ row: 'r1', column: 'c2' }), all.get({ row: 'r1', column: 'c1' })];
  const dotted = all.get({ row: 'r.2', column: 'c2' });
  store.change((board) => ({ ...board, columns: board.columns.slice(1) }));
  store.change((board) => ({ ...board, columns: [...board.columns, column('c1')] }));
  const again = all.get({ row: 'r1', column: 'c1' });
  expect([again === gone, again.thread]).toEqual([false, null]);
  expect([all.get({ row: 'r1', column: 'c2' }) === kept, all.get({ row: 'r.2', column: 'c2' }) === dotted]).toEqual([
    true,
    true,
  ]);
});

test('the address says where the branch of one cell ends', () => {
  const all = new CellChats(new BoardStore(BOARD, null), () => {}, { cell: 'r1.c1', message: 'm7' });
  void all.get({ row: 'r1', column: 'c1' }).load();
  void all.get({ row: 'r.2', column: 'c1' }).load();
  expect(asked.map(({ path }) => path)).toEqual(['/api/threads/conv_1', '/api/threads/conv_1/messages?at=m7&limit=60']);
});

describe('The inputs of a row', () => {
  const schema = { properties: { messages: {}, subject: {} }, additionalProperties: false };
  test('are for each workflow those that it takes', () => {
    expect(acceptedInputs({ subject: 'physics', script: [] }, schema)).toEqual({ subject: 'physics' });
  });
  test('never hold messages: the thread has its own', () => {
    expect(acceptedInputs({ messages: [], anything: 1 }, { additionalProperties: true })).toEqual({ anything: 1 });
    expect(acceptedInputs({ messages: [], anything: 1 }, undefined)).toEqual({ anything: 1 });
  });
});
