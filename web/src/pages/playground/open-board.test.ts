import { afterEach, describe, expect, test, vi } from 'vitest';
import type { Bootstrap } from '@/api/queries';
import { initialWorkflow, openBoard } from './open-board';

const flow = (name: string, more: object = {}) => ({ name, is_chat: true, default: false, ...more });
const bootstrap = (board_id: string | null, ...data: object[]) =>
  ({ board_id, workflows: { data } }) as unknown as Bootstrap;
const { signal } = new AbortController();

afterEach(() => void vi.unstubAllGlobals());

function mockFetch(answers: Record<string, object>) {
  const fetchMock = vi.fn(async (path: string) =>
    answers[path]
      ? Response.json(answers[path], { headers: { etag: '"1"' } })
      : Response.json({ error: { code: 'not_found', message: 'There is none.' } }, { status: 404 }),
  );
  vi.stubGlobal('fetch', fetchMock);
  return fetchMock;
}

test('a new board uses the requested workflow, the default chat, the first chat, or any workflow', () => {
  const workflows = [flow('headline', { is_chat: false }), flow('eliza'), flow('tutor', { default: true })];
  expect(initialWorkflow(workflows, 'headline')?.name).toBe('headline');
  expect(initialWorkflow(workflows, 'unknown')?.name).toBe('tutor');
  expect(initialWorkflow(workflows.slice(0, 2), null)?.name).toBe('eliza');
  expect(initialWorkflow([flow('a', { is_chat: false, default: true }), flow('eliza')], null)?.name).toBe('eliza');
  expect(initialWorkflow(workflows.slice(0, 1), null)?.name).toBe('headline');
  expect(initialWorkflow([], null)).toBeUndefined();
});

describe('opening a URL', () => {
  const saved = { id: 'brd_1', name: 'One', mode: 'chat', columns: [], rows: [], cells: [], layout: {}, testset: null };

  test('loads the board that it names, or the last saved board', async () => {
    const fetchMock = mockFetch({ '/api/boards/brd_1': saved });
    const opened = [
      await openBoard('brd_1', null, false, bootstrap(null), signal),
      await openBoard(undefined, null, false, bootstrap('brd_1'), signal),
    ];
    expect(opened.map((one) => [one?.store.board.id, one?.title, one?.isStandalone])).toEqual([
      ['brd_1', 'One', false],
      ['brd_1', 'One', false],
    ]);
    expect(opened[0]?.key).not.toBe(opened[1]?.key);
    expect(fetchMock).toHaveBeenCalledTimes(2);
  });

  test('creates an unsaved draft for a requested workflow or a new board', async () => {
    const fetchMock = mockFetch({});
    const workflows = [flow('eliza'), flow('headline', { is_chat: false })];
    const opened = [
      await openBoard(undefined, 'headline', false, bootstrap('brd_1', ...workflows), signal),
      await openBoard(undefined, null, true, bootstrap('brd_1', ...workflows), signal),
    ];
    expect(
      opened.map((one) => [
        one?.store.board.id,
        one?.store.board.mode,
        one?.store.board.columns,
        one?.store.board.rows,
      ]),
    ).toEqual([
      [
        '',
        'single',
        [{ id: 'c1', workflow: 'headline', variant: 'default', parameters: {} }],
        [{ id: 'r1', name: '', inputs: {} }],
      ],
      [
        '',
        'chat',
        [{ id: 'c1', workflow: 'eliza', variant: 'default', parameters: {} }],
        [{ id: 'r1', name: '', inputs: {} }],
      ],
    ]);
    expect(fetchMock.mock.calls.map(([path]) => path)).toEqual(['/api/workflows/headline', '/api/workflows/eliza']);
  });

  test('starts a new board with the example of its workflow', async () => {
    mockFetch({
      '/api/workflows/mender': {
        name: 'mender',
        schemas: { inputs: { properties: { context: { examples: [{ code: 'f()' }] } } } },
      },
    });
    const opened = await openBoard(undefined, 'mender', false, bootstrap(null, flow('mender')), signal);
    expect(opened?.store.board.rows).toEqual([{ id: 'r1', name: '', inputs: { context: { code: 'f()' } } }]);
  });

  test('shows a thread alone, with its workflow, parameters and inputs', async () => {
    mockFetch({
      '/api/threads/conv_1': {
        id: 'conv_1',
        title: 'Why?',
        workflow: 'tutor',
        variant: 'short:3',
        parameters: { t: 1 },
        inputs: { subject: 'physics' },
      },
    });
    const opened = await openBoard('conv_1', null, false, bootstrap(null), signal);
    expect([
      opened?.isStandalone,
      opened?.title,
      opened?.store.board.columns,
      opened?.store.board.rows,
      opened?.store.board.cells,
    ]).toEqual([
      true,
      'Why?',
      [{ id: 'c1', workflow: 'tutor', variant: 'short:3', parameters: { t: 1 } }],
      [{ id: 'r1', name: '', inputs: { subject: 'physics' } }],
      [{ row: 'r1', column: 'c1', thread: 'conv_1', run: null }],
    ]);
  });

  test('fails for an unknown board, and returns null if there are no workflows', async () => {
    mockFetch({});
    await expect(openBoard('brd_9', null, false, bootstrap(null), signal)).rejects.toThrow('There is none.');
    expect(await openBoard(undefined, null, false, bootstrap(null), signal)).toBeNull();
  });
});
