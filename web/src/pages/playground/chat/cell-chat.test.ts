import { describe, expect, test, vi, afterEach, beforeEach } from 'vitest';
import type { Thread, Board } from '@/api/client';
import { BoardStore } from '@/pages/playground/board-store';
import {
  PLACEMENT,
  sendAndWait,
  waitUntilIdle,
  createCell,
  openThreadCell,
  pause,
  startServer,
  server,
  openCell,
  textParts,
  transcript,
  waitUntil,
} from '@/testing/fake-cell';
import { CellChats, acceptedInputs } from './cell-chat';

startServer();

describe('a first question', () => {
  test('creates the thread, is stored in it, and is answered with the settings of its cell', async () => {
    const createThread = vi.fn(async () => ({ id: 'conv_1' }) as Thread);
    const cell = await openCell(createCell({ createThread }));
    await sendAndWait(cell, 'Why?');
    server.sendText('Because.');
    server.end();
    await waitUntilIdle(cell);
    const [question] = cell.chat.messages;
    expect(createThread).toHaveBeenCalledTimes(1);
    expect(server.posted()).toEqual([
      { messages: [{ id: question?.id, role: 'user', parts: textParts('Why?') }], parent: null },
    ]);
    const call = server.requests.find(({ route }) => route === 'POST /tutor/api/chat');
    expect([
      call?.headers['x-palaver-thread'],
      call?.headers['x-palaver-answer'],
      call?.headers['x-palaver-variant'],
    ]).toEqual(['conv_1', question?.id, 'short']);
    expect(call?.body).toMatchObject({ id: 'conv_1', inputs: { subject: 'physics' }, parameters: { t: 1 } });
    expect(transcript(cell)).toEqual(['user: Why?', 'assistant: Because.']);
    expect(cell.chat.messages.map(({ metadata }) => metadata?.nodes)).toEqual([[question?.id], ['msg_1_1']]);
    expect(cell.chat.messages[1]?.metadata?.seconds).toBeGreaterThanOrEqual(0);
  });

  test('that is stopped before the thread exists is stored, but not answered', async () => {
    let resolveThread: ((thread: Thread) => void) | undefined;
    const cell = await openCell(
      createCell({ createThread: () => new Promise<Thread>((resolve) => void (resolveThread = resolve)) }),
    );
    void cell.send(textParts('Why?'));
    await waitUntil(() => cell.busy);
    const stopping = cell.stop();
    resolveThread?.({ id: 'conv_1' } as Thread);
    await stopping;
    expect([transcript(cell), server.run, server.endedRuns, server.tree.length, cell.chat.status]).toEqual([
      ['user: Why?'],
      null,
      [],
      1,
      'ready',
    ]);
  });

  test('that could not be stored is shown with the error, and stored once by a retry', async () => {
    const cell = await openCell(createCell());
    server.failNext('POST /api/threads/conv_1/messages', 500, 'Out of order.');
    await cell.send(textParts('Why?'));
    await waitUntilIdle(cell);
    expect([transcript(cell), cell.chat.error?.message, server.tree]).toEqual([['user: Why?'], 'Out of order.', []]);
    void cell.retry();
    await waitUntil(() => server.run !== null);
    server.end();
    await waitUntilIdle(cell);
    expect(server.tree.map((line) => line.replace(/ui_\w+/g, 'ui'))).toEqual([
      '- > ui user Why?',
      'ui > msg_1_1 assistant ',
    ]);
  });

  test('is not stored twice if the response of the server was lost', async () => {
    const cell = await openCell(createCell());
    const release = server.holdRoute('POST /api/threads/conv_1/messages');
    void cell.send(textParts('Why?'));
    await waitUntil(() => server.posted().length === 1);
    const [{ messages }] = server.posted() as [{ messages: { id: string }[] }];
    server.addNodes({ role: 'user', id: messages[0]?.id ?? '', text: 'Why?' });
    server.isOffline = true;
    release();
    await waitUntil(() => cell.chat.status === 'error');
    server.isOffline = false;
    await waitUntilIdle(cell);
    void cell.retry();
    await waitUntil(() => server.run !== null);
    server.end();
    await waitUntilIdle(cell);
    expect(server.nodes.map(({ role }) => role)).toEqual(['user', 'assistant']);
    expect(transcript(cell)).toEqual(['user: Why?', 'assistant: ']);
  });
});

describe('an opened thread', () => {
  test('is shown with few requests if it is opened twice at once', async () => {
    server.addNodes({ role: 'user', text: 'Why?' }, { role: 'assistant', text: 'So.' });
    const cell = createCell({ thread: 'conv_1' });
    cell.open()();
    cell.open();
    await waitUntilIdle(cell);
    expect(transcript(cell)).toEqual(['user: Why?', 'assistant: So.']);
    expect(server.requests.length).toBeLessThanOrEqual(6);
  });

  test('streams a run in progress, and then has its complete answer', async () => {
    server.addNodes({ role: 'user', text: 'Why?' });
    server.begin('m1');
    server.sendText('Bec');
    const cell = createCell({ thread: 'conv_1' });
    cell.open()();
    cell.open();
    await waitUntil(() => transcript(cell).at(-1) === 'assistant: Bec');
    server.sendText('ause.');
    server.end();
    await waitUntilIdle(cell);
    expect(transcript(cell)).toEqual(['user: Why?', 'assistant: Because.']);
    expect(cell.chat.messages[1]?.metadata?.nodes).toEqual(['msg_1_1']);
  });

  test('shows the answer of a run that ends before its stream is opened', async () => {
    server.addNodes({ role: 'user', text: 'Why?' });
    server.begin('m1');
    const release = server.holdRoute('GET /tutor/api/chat/conv_1/stream');
    const cell = createCell({ thread: 'conv_1' });
    cell.open();
    await waitUntil(() => server.requests.some(({ route }) => route.endsWith('/stream')));
    server.sendText('Because.');
    server.end();
    release();
    await waitUntil(() => transcript(cell).length === 2);
    expect(transcript(cell)).toEqual(['user: Why?', 'assistant: Because.']);
  });

  test('ignores a run on another branch', async () => {
    server.addNodes({ role: 'user', text: 'Why?' }, { role: 'assistant', text: 'So.' });
    server.begin('m1');
    const cell = await openThreadCell({ branchEnd: 'm2' });
    await pause();
    expect([cell.busy, transcript(cell)]).toEqual([false, ['user: Why?', 'assistant: So.']]);
  });

  test('stores a new message only once its last message is known', async () => {
    server.addNodes({ role: 'user', text: 'Why?' }, { role: 'assistant', text: 'So.' });
    const release = server.holdRoute('GET /api/threads/conv_1/messages');
    const cell = createCell({ thread: 'conv_1' });
    cell.open();
    const sending = cell.send(textParts('And?'));
    await pause();
    expect(server.posted()).toEqual([]);
    release();
    await waitUntil(() => server.run !== null);
    server.end();
    await sending;
    expect(server.posted()).toMatchObject([{ parent: 'm2' }]);
  });

  test('reports that it cannot be read, and is loaded once the connection is back', async () => {
    server.addNodes({ role: 'user', text: 'Why?' });
    server.isOffline = true;
    const cell = await openThreadCell();
    expect(cell.problem?.message).toContain('Cannot reach the server');
    server.isOffline = false;
    server.connected(false);
    await waitUntil(() => transcript(cell).length === 1);
    expect(cell.problem).toBeNull();
    server.addNodes({ role: 'assistant', text: 'So.' });
    server.connected(true);
    await waitUntil(() => transcript(cell).length === 2);
  });

  test('shows the output and error of a failed run until the next question', async () => {
    server.addNodes({ role: 'user', text: 'Why?' });
    server.begin('m1');
    server.sendText('Bec');
    server.end('failed');
    const cell = await openThreadCell();
    expect(transcript(cell)).toEqual(['user: Why?', 'assistant: Bec']);
    expect(cell.chat.messages[1]?.metadata).toMatchObject({
      status: 'failed',
      error: { message: 'The model is gone.', code: 'workflow_failed' },
    });
    await sendAndWait(cell, 'Well?');
    expect(transcript(cell).slice(0, 2)).toEqual(['user: Why?', 'user: Well?']);
    expect(server.posted()).toMatchObject([{ parent: 'm1' }]);
  });

  test('shows the error of a failed run without output on the question', async () => {
    server.addNodes({ role: 'user', text: 'Why?' });
    server.begin('m1');
    server.end('failed');
    const cell = await openThreadCell();
    expect([transcript(cell), cell.chat.messages[0]?.metadata?.error?.message]).toEqual([
      ['user: Why?'],
      'The model is gone.',
    ]);
  });
});

describe('an answer', () => {
  test('that fails stays with its error until a retry, which does not repeat the question', async () => {
    const cell = await openCell(createCell());
    await sendAndWait(cell, 'Why?');
    server.sendText('Bec');
    await waitUntil(() => transcript(cell).length === 2);
    server.end('failed');
    await waitUntil(() => cell.chat.status === 'error');
    server.notice();
    server.notice();
    await pause(60);
    expect([transcript(cell), cell.chat.error?.message]).toEqual([
      ['user: Why?', 'assistant: Bec'],
      'The model is gone.',
    ]);
    void cell.retry();
    await waitUntil(() => server.run !== null);
    server.sendText('Because.');
    server.end();
    await waitUntilIdle(cell);
    expect([transcript(cell), cell.chat.error, server.posted().length]).toEqual([
      ['user: Why?', 'assistant: Because.'],
      undefined,
      1,
    ]);
  });

  test('is streamed to its end after the connection was lost', async () => {
    const cell = await openCell(createCell());
    await sendAndWait(cell, 'Why?');
    server.sendText('Bec');
    await waitUntil(() => transcript(cell).length === 2);
    server.lose();
    server.sendText('ause');
    await waitUntil(() => transcript(cell).at(-1) === 'assistant: Because');
    server.sendText('.');
    server.end();
    await waitUntilIdle(cell);
    expect([transcript(cell), cell.chat.error, server.posted().length]).toEqual([
      ['user: Why?', 'assistant: Because.'],
      undefined,
      1,
    ]);
  });

  test('is completed once the server is reachable again after the connection was lost', async () => {
    const cell = await openCell(createCell());
    await sendAndWait(cell, 'Why?');
    server.sendText('Bec');
    await waitUntil(() => transcript(cell).at(-1) === 'assistant: Bec');
    server.isOffline = true;
    server.lose();
    await pause(100);
    expect([transcript(cell), cell.problem]).toEqual([['user: Why?', 'assistant: Bec'], null]);
    server.sendText('ause.');
    server.end();
    server.isOffline = false;
    await waitUntil(() => transcript(cell).at(-1) === 'assistant: Because.');
  });

  test('that never started because the connection was lost is reported on the question', async () => {
    const cell = await openCell(createCell());
    const release = server.holdRoute('POST /tutor/api/chat');
    void cell.send(textParts('Why?'));
    await waitUntil(
      () => server.posted().length === 1 && server.requests.some(({ route }) => route === 'POST /tutor/api/chat'),
    );
    server.isOffline = true;
    release();
    await pause();
    server.isOffline = false;
    await waitUntil(() => cell.chat.messages[0]?.metadata?.error !== undefined);
    expect([transcript(cell), cell.chat.messages[0]?.metadata?.error?.message]).toEqual([
      ['user: Why?'],
      'The connection was lost before an answer arrived.',
    ]);
  });

  test('that is stopped keeps its partial text', async () => {
    const cell = await openCell(createCell());
    await sendAndWait(cell, 'Why?');
    server.sendText('Bec');
    await waitUntil(() => transcript(cell).length === 2);
    await cell.stop();
    expect([transcript(cell), cell.chat.messages[1]?.metadata?.status]).toEqual([
      ['user: Why?', 'assistant: Bec'],
      'partial',
    ]);
  });

  test('is interrupted by the next question, which follows its partial text', async () => {
    const cell = await openCell(createCell());
    await sendAndWait(cell, 'Why?');
    server.sendText('Bec');
    await waitUntil(() => transcript(cell).length === 2);
    void cell.send(textParts('And?'));
    await waitUntil(() => server.posted().length === 2 && server.run !== null);
    server.sendText('Well.');
    server.end();
    await waitUntilIdle(cell);
    expect(transcript(cell)).toEqual(['user: Why?', 'assistant: Bec', 'user: And?', 'assistant: Well.']);
    expect(server.nodes.map(({ parent, id }) => [parent, id]).slice(2)).toEqual([
      ['msg_1_1', server.nodes[2]?.id],
      [server.nodes[2]?.id, 'msg_2_1'],
    ]);
  });

  test('is not sent back by the page, however soon the next question follows', async () => {
    const cell = await openCell(createCell());
    await sendAndWait(cell, 'Why?');
    server.sendText('Because.');
    server.end();
    await waitUntil(() => cell.chat.status === 'ready');
    void cell.send(textParts('And?'));
    await waitUntil(() => server.posted().length === 2);
    expect(server.posted()[1]).toMatchObject({
      messages: [{ role: 'user', parts: textParts('And?') }],
      parent: 'msg_1_1',
    });
  });

  test('that is rejected leaves the question with the error', async () => {
    const cell = await openCell(createCell());
    server.failNext('POST /tutor/api/chat', 429, 'Too many.');
    await cell.send(textParts('Why?'));
    await waitUntilIdle(cell);
    expect([transcript(cell), cell.chat.error?.message.includes('Too many.'), server.posted().length]).toEqual([
      ['user: Why?'],
      true,
      1,
    ]);
  });
});

describe('several messages at once', () => {
  test('are stored in order, each once', async () => {
    const cell = await openCell(createCell());
    for (const text of ['One', 'Two', 'Three']) void cell.send(textParts(text));
    await waitUntil(() => server.posted().length === 3 && server.run !== null);
    server.sendText('Yes.');
    server.end();
    await waitUntilIdle(cell);
    expect(transcript(cell).filter((line) => line.startsWith('user'))).toEqual([
      'user: One',
      'user: Two',
      'user: Three',
    ]);
    expect(server.nodes.filter(({ role }) => role === 'user').map(({ parts }) => parts)).toEqual([
      textParts('One'),
      textParts('Two'),
      textParts('Three'),
    ]);
  });

  test('with other roles are stored without an answer', async () => {
    const cell = await openCell(createCell());
    await Promise.all([cell.send(textParts('Be brief.'), 'system'), cell.send(textParts('Hello.'), 'assistant')]);
    await waitUntilIdle(cell);
    expect([transcript(cell), server.run, server.nodes.map(({ role }) => role)]).toEqual([
      ['system: Be brief.', 'assistant: Hello.'],
      null,
      ['system', 'assistant'],
    ]);
  });
});

describe('another tab', () => {
  test('that starts a run has it streamed here', async () => {
    server.addNodes({ role: 'user', text: 'Why?' }, { role: 'assistant', text: 'So.' });
    const cell = await openThreadCell();
    server.addNodes({ role: 'user', text: 'And?' });
    server.begin('m3');
    server.notice();
    server.sendText('Well');
    await waitUntil(() => transcript(cell).at(-1) === 'assistant: Well');
    server.end();
    await waitUntilIdle(cell);
    expect(transcript(cell)).toEqual(['user: Why?', 'assistant: So.', 'user: And?', 'assistant: Well']);
  });

  test('that adds a message during a run here has it shown after the run', async () => {
    const cell = await openCell(createCell());
    await sendAndWait(cell, 'Why?');
    server.sendText('Because.');
    await waitUntil(() => transcript(cell).length === 2);
    const end = server.run?.message ?? '';
    server.end();
    server.addNodes({ role: 'system', text: 'From elsewhere.', parent: end });
    server.notice();
    await waitUntilIdle(cell);
    await waitUntil(() => transcript(cell).length === 3);
    expect(transcript(cell)).toEqual(['user: Why?', 'assistant: Because.', 'system: From elsewhere.']);
  });

  test('that continues the thread does not remove a message that could not be stored here', async () => {
    server.addNodes({ role: 'user', text: 'Why?' }, { role: 'assistant', text: 'So.' });
    const cell = await openThreadCell();
    server.failNext('POST /api/threads/conv_1/messages', 500, 'Out of order.');
    await cell.send(textParts('Mine.'));
    await waitUntilIdle(cell);
    server.addNodes({ role: 'user', text: 'Theirs.' });
    server.begin('m3');
    server.sendText('Well.');
    server.notice();
    await waitUntil(() => transcript(cell).at(-1) === 'assistant: Well.');
    server.end();
    await waitUntil(() => transcript(cell).length === 5);
    expect(transcript(cell)).toEqual([
      'user: Why?',
      'assistant: So.',
      'user: Theirs.',
      'assistant: Well.',
      'user: Mine.',
    ]);
    expect(cell.chat.messages.at(-1)?.metadata?.error?.message).toBe('This message was not sent.');
    void cell.retry();
    await waitUntil(() => server.run !== null);
    expect(server.posted().at(-1)).toMatchObject({ messages: [{ parts: textParts('Mine.') }], parent: 'msg_1_1' });
  });

  test('that created the thread of this cell has it adopted here', async () => {
    const cell = await openCell(createCell());
    server.addNodes({ role: 'user', text: 'Why?' });
    cell.adopt('conv_1');
    await waitUntil(() => transcript(cell).length === 1);
    expect(cell.thread).toBe('conv_1');
  });
});

test('a column that changes its workflow keeps its thread', async () => {
  server.addNodes({ role: 'user', text: 'Why?' }, { role: 'assistant', text: 'So.' });
  let placement = PLACEMENT;
  const cell = await openThreadCell({ placement: () => placement });
  placement = { ...PLACEMENT, workflow: 'eliza' };
  await sendAndWait(cell, 'And?');
  expect([server.workflow, server.requests.some(({ route }) => route === 'POST /eliza/api/chat')]).toEqual([
    'eliza',
    true,
  ]);
  await cell.stop();
  expect(server.requests.some(({ route }) => route === 'POST /eliza/api/chat/conv_1/stop')).toBe(true);
});

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
describe('the chats of a board', () => {
  let requests: { path: string; body: unknown }[];

  beforeEach(() => {
    requests = [];
    vi.stubGlobal('fetch', async (path: string, init: RequestInit = {}) => {
      requests.push({ path, body: init.body ? (JSON.parse(String(init.body)) as unknown) : null });
      if (path === '/api/threads') return Response.json({ id: 'conv_9' }, { status: 201 });
      if (path.endsWith('/messages')) return Response.json({ messages: [] }, { status: 201 });
      return Response.json({ error: { code: 'not_found', message: 'Not here.' } }, { status: 404 });
    });
  });
  afterEach(() => void vi.unstubAllGlobals());

  const createChats = () => {
    const store = new BoardStore(BOARD, '"1"');
    return { store, chats: new CellChats(store, () => {}) };
  };

  test('are one for each cell, with its thread on the board', () => {
    const { chats } = createChats();
    const first = chats.get({ row: 'r1', column: 'c1' });
    expect(chats.get({ row: 'r1', column: 'c1' })).toBe(first);
    expect(chats.all().map(({ thread }) => thread)).toEqual(['conv_1', null, null, null]);
  });

  test('create the thread of a cell with its first message', async () => {
    const { store, chats } = createChats();
    await chats
      .get({ row: 'r1', column: 'c2' })
      .send([{ type: 'text', text: 'Hi' }], 'system')
      .catch(() => {});
    expect(requests[0]).toEqual({
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

  test('adopt the thread of a cell that another tab filled', () => {
    const { store, chats } = createChats();
    const cell = chats.get({ row: 'r1', column: 'c2' });
    store.fillCell('r1', 'c2', { thread: 'conv_2' });
    expect(cell.thread).toBe('conv_2');
  });

  test('are removed with their row or column, even if its id is used again', () => {
    const { store, chats } = createChats();
    const [remaining, removed] = [chats.get({ row: 'r1', column: 'c2' }), chats.get({ row: 'r1', column: 'c1' })];
    const dotted = chats.get({ row: 'r.2', column: 'c2' });
    store.change((board) => ({ ...board, columns: board.columns.slice(1) }));
    store.change((board) => ({ ...board, columns: [...board.columns, column('c1')] }));
    const recreated = chats.get({ row: 'r1', column: 'c1' });
    expect([recreated === removed, recreated.thread]).toEqual([false, null]);
    expect([
      chats.get({ row: 'r1', column: 'c2' }) === remaining,
      chats.get({ row: 'r.2', column: 'c2' }) === dotted,
    ]).toEqual([true, true]);
  });

  test('load the branch that the URL selects for one cell', () => {
    const chats = new CellChats(new BoardStore(BOARD, null), () => {}, { cell: 'r1.c1', message: 'm7' });
    void chats.get({ row: 'r1', column: 'c1' }).load();
    void chats.get({ row: 'r.2', column: 'c1' }).load();
    expect(requests.map(({ path }) => path)).toEqual([
      '/api/threads/conv_1',
      '/api/threads/conv_1/messages?at=m7&limit=60',
    ]);
  });

  describe('the inputs of a row', () => {
    const schema = { properties: { messages: {}, subject: {} }, additionalProperties: false };
    test('are limited to those that the workflow accepts', () => {
      expect(acceptedInputs({ subject: 'physics', script: [] }, schema)).toEqual({ subject: 'physics' });
    });
    test('never contain messages, which come from the thread', () => {
      expect(acceptedInputs({ messages: [], anything: 1 }, { additionalProperties: true })).toEqual({ anything: 1 });
      expect(acceptedInputs({ messages: [], anything: 1 }, undefined)).toEqual({ anything: 1 });
    });
  });
});
