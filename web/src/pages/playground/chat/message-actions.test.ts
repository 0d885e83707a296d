import { describe, expect, test, vi } from 'vitest';
import type { ChatMessage } from '@/components/messages/message';
import {
  sendAndWait,
  waitUntilIdle,
  openThreadCell,
  startServer,
  server,
  textParts,
  transcript,
  waitUntil,
} from '@/testing/fake-cell';
import type { CellChat } from './cell-chat';

startServer();

describe('message actions', () => {
  const addBranch = () =>
    server.addNodes(
      { role: 'user', text: 'Why?' },
      { role: 'assistant', text: 'So.', run: 'run_a' },
      { role: 'user', text: 'And?' },
      { role: 'assistant', text: 'Well.', run: 'run_b' },
    );
  const actionsAt = (cell: CellChat, index: number) => cell.actionsOf(cell.chat.messages[index] as ChatMessage);

  test('keep their identity until something changes, and are empty during a run', async () => {
    addBranch();
    const cell = await openThreadCell();
    const [question, answer] = [actionsAt(cell, 0), actionsAt(cell, 1)];
    expect([actionsAt(cell, 0) === question, actionsAt(cell, 1) === answer]).toEqual([true, true]);
    await answer.rate?.('up');
    expect([actionsAt(cell, 0) === question, actionsAt(cell, 1) === answer]).toEqual([true, false]);
    await cell.load();
    expect(Object.keys(actionsAt(cell, 1))).toEqual([
      'rerun',
      'show',
      'fork',
      'addToTestSet',
      'remove',
      'edit',
      'rate',
      'approve',
    ]);
    void cell.send(textParts('More.'));
    await waitUntil(() => cell.busy);
    expect(actionsAt(cell, 0)).toEqual({});
  });

  test('regenerate an answer as a sibling, also in the middle of a thread', async () => {
    addBranch();
    const cell = await openThreadCell();
    void actionsAt(cell, 1).rerun?.();
    await waitUntil(() => server.run !== null);
    expect(server.run?.answers).toBe('m1');
    server.sendText('Thus.');
    server.end();
    await waitUntilIdle(cell);
    expect(transcript(cell)).toEqual(['user: Why?', 'assistant: Thus.']);
    expect([cell.chat.messages[1]?.metadata?.siblings, server.posted()]).toEqual([['m2', 'msg_1_1'], []]);
  });

  test('keep the output of a failed rerun, and a retry answers the same question', async () => {
    addBranch();
    const cell = await openThreadCell();
    void actionsAt(cell, 1).rerun?.();
    await waitUntil(() => server.run !== null);
    server.sendText('Th');
    await waitUntil(() => transcript(cell).length === 2 && transcript(cell)[1] === 'assistant: Th');
    server.end('failed');
    await waitUntil(() => cell.chat.status === 'error' && !cell.loading);
    expect(transcript(cell)).toEqual(['user: Why?', 'assistant: Th']);
    void cell.retry();
    await waitUntil(() => server.run !== null);
    expect(server.run?.answers).toBe('m1');
  });

  test('keep the thread if a rerun is rejected, and a retry repeats that rerun', async () => {
    addBranch();
    const cell = await openThreadCell();
    server.failNext('POST /tutor/api/chat', 429, 'Too many.');
    await actionsAt(cell, 1).rerun?.();
    await waitUntilIdle(cell);
    expect([transcript(cell).length, cell.chat.status]).toEqual([4, 'error']);
    void cell.retry();
    await waitUntil(() => server.run !== null);
    expect(server.run?.answers).toBe('m1');
  });

  test('do not include a rerun for an answer without a question', async () => {
    server.addNodes({ role: 'assistant', text: 'Hello.' });
    const cell = await openThreadCell();
    expect(actionsAt(cell, 0).rerun).toBeUndefined();
  });

  test('edit the first question and answer it again', async () => {
    addBranch();
    const cell = await openThreadCell();
    void actionsAt(cell, 0).edit?.('How?');
    await waitUntil(() => server.run !== null);
    server.sendText('Thus.');
    server.end();
    await waitUntilIdle(cell);
    expect(transcript(cell)).toEqual(['user: How?', 'assistant: Thus.']);
    expect(server.posted()).toMatchObject([{ messages: [{ role: 'user', parts: textParts('How?') }], replaces: 'm1' }]);
    expect(cell.chat.messages[0]?.metadata).toMatchObject({
      parent: null,
      siblings: ['m1', cell.chat.messages[0]?.id],
    });
  });

  test('edit an answer without a new run', async () => {
    addBranch();
    const cell = await openThreadCell();
    await actionsAt(cell, 1).edit?.('Thus.');
    await waitUntilIdle(cell);
    expect([transcript(cell), server.run]).toEqual([['user: Why?', 'assistant: Thus.'], null]);
  });

  test('remove a message with all its nodes from the middle of a thread', async () => {
    server.addNodes(
      { role: 'user', text: 'Why?' },
      { role: 'assistant', text: 'So', run: 'run_a' },
      { role: 'assistant', text: '.', run: 'run_a' },
      { role: 'user', text: 'And?' },
    );
    const cell = await openThreadCell();
    await actionsAt(cell, 1).remove?.();
    expect([transcript(cell), server.tree]).toEqual([
      ['user: Why?', 'user: And?'],
      ['- > m1 user Why?', 'm1 > m4 user And?'],
    ]);
    expect(
      server.requests.filter(({ route }) => route.startsWith('DELETE')).map(({ route }) => route.split('/').at(-1)),
    ).toEqual(['m3', 'm2']);
  });

  test('switch to another version, and show a failed one without switching to it', async () => {
    addBranch();
    server.nodes.push({ ...(server.nodes[1] as (typeof server.nodes)[number]), id: 'b1', parts: textParts('Other.') });
    server.nodes.push({
      ...(server.nodes[1] as (typeof server.nodes)[number]),
      id: 'f1',
      status: 'failed',
      parts: textParts('Fai'),
    });
    const cell = await openThreadCell();
    await actionsAt(cell, 1).show?.('b1');
    expect([transcript(cell), server.head]).toEqual([['user: Why?', 'assistant: Other.'], 'b1']);
    await actionsAt(cell, 1).show?.('f1');
    expect([transcript(cell), server.head]).toEqual([['user: Why?', 'assistant: Fai'], 'b1']);
    await actionsAt(cell, 1).show?.('m2');
    expect([transcript(cell).length, server.head]).toEqual([4, 'm4']);
  });

  test('rate a message, and change the rating', async () => {
    addBranch();
    const cell = await openThreadCell();
    await actionsAt(cell, 1).rate?.('up');
    expect(cell.chat.messages[1]?.metadata?.feedback).toEqual({ up: 1, down: 0, mine: 'up' });
    await actionsAt(cell, 1).rate?.('down', 'Wrong.');
    expect(cell.chat.messages[1]?.metadata?.feedback).toEqual({ up: 0, down: 1, mine: 'down' });
    expect(server.requests.filter(({ route }) => route.startsWith('PUT'))).toMatchObject([
      { route: 'PUT /api/runs/run_a/feedback', body: { rating: 'up', message: 'm2' } },
      { route: 'PUT /api/runs/run_a/feedback', body: { rating: 'down', comment: 'Wrong.', message: 'm2' } },
    ]);
  });

  test('fork the thread at a message', async () => {
    addBranch();
    const onForked = vi.fn();
    const cell = await openThreadCell({ onForked });
    await actionsAt(cell, 1).fork?.();
    expect(onForked.mock.calls).toEqual([[{ id: 'conv_2', upto: 'm2' }]]);
  });

  test('approve a call and continue in the same message, and a retry continues from the approval', async () => {
    server.addNodes(
      { role: 'user', text: 'Erase.' },
      {
        role: 'assistant',
        run: 'run_a',
        parts: [
          { type: 'tool-call', call_id: 'c1', name: 'erase', arguments: '{}' },
          { type: 'data', name: 'approval-request', value: { id: 'ap1', call_id: 'c1' } },
        ],
      },
    );
    const cell = await openThreadCell();
    void actionsAt(cell, 1).approve?.('ap1', true);
    await waitUntil(() => server.run !== null);
    const approvalNode = server.nodes[2];
    expect([approvalNode?.parent, approvalNode?.parts, server.run?.answers]).toEqual([
      'm2',
      [{ type: 'data', name: 'approval-response', value: { id: 'ap1', approve: true } }],
      approvalNode?.id,
    ]);
    server.sendText('Gone');
    await waitUntil(() => transcript(cell).at(-1) === 'assistant: Gone');
    server.end('failed');
    await waitUntil(() => cell.chat.status === 'error' && !cell.loading);
    void cell.retry();
    await waitUntil(() => server.run !== null);
    expect([server.run?.answers, server.posted().length]).toEqual([approvalNode?.id, 1]);
    server.sendText('Done.');
    server.end();
    await waitUntilIdle(cell);
    expect(cell.chat.messages.map(({ id }) => id)).toEqual(['m1', 'm2']);
    expect(cell.chat.messages[1]?.parts).toMatchObject([
      { state: 'approval-responded', approval: { approved: true } },
      { type: 'text', text: 'Done.' },
    ]);
  });
});

describe('older messages of a long thread', () => {
  const addMessages = (count: number) =>
    server.addNodes(
      ...Array.from({ length: count }, (_, index) => ({
        role: index % 2 ? ('assistant' as const) : ('user' as const),
        text: `${index + 1}`,
        run: index % 2 ? `run_${index}` : null,
      })),
    );

  test('are loaded page by page, also during a run, and remain after it', async () => {
    addMessages(130);
    const cell = await openThreadCell();
    expect([transcript(cell)[0], transcript(cell).length, cell.older]).toEqual(['user: 71', 60, 'm70']);
    await sendAndWait(cell, 'More?');
    await cell.loadOlder();
    expect([transcript(cell)[0], cell.older]).toEqual(['user: 51', 'm50']);
    server.sendText('Yes.');
    server.end();
    await waitUntilIdle(cell);
    expect([transcript(cell)[0], transcript(cell).length, transcript(cell).at(-1)]).toEqual([
      'user: 51',
      82,
      'assistant: Yes.',
    ]);
    while (cell.older) await cell.loadOlder();
    expect([transcript(cell)[0], transcript(cell).length, cell.older]).toEqual(['user: 1', 132, null]);
    expect(new Set(cell.chat.messages.map(({ id }) => id)).size).toBe(132);
  });

  test('belong to the branch that is shown, and remain after a new message', async () => {
    addMessages(70);
    server.addNodes({ role: 'user', id: 'other', parent: 'm1', text: 'Elsewhere' });
    const cell = await openThreadCell({ branchEnd: 'm70' });
    expect(cell.older).toBe('m10');
    await sendAndWait(cell, 'More?');
    server.end();
    await waitUntilIdle(cell);
    await cell.loadOlder();
    expect([transcript(cell)[0], transcript(cell).length]).toEqual(['user: 1', 72]);
  });

  test('are merged with later ones if a run spans two pages', async () => {
    server.addNodes(
      { role: 'user', text: 'Count.' },
      ...Array.from({ length: 70 }, (_, index) => ({ role: 'assistant' as const, text: `${index} `, run: 'run_a' })),
    );
    const cell = await openThreadCell();
    await cell.loadOlder();
    expect(cell.chat.messages.map(({ id }) => id)).toEqual(['m1', 'm2']);
    expect(cell.chat.messages[1]?.metadata?.nodes).toHaveLength(70);
  });

  test('need not be loaded to rerun the first answer that is shown', async () => {
    addMessages(62);
    server.addNodes({ role: 'user', text: 'odd' });
    const cell = await openThreadCell();
    expect(transcript(cell)[0]).toBe('assistant: 4');
    void cell.actionsOf(cell.chat.messages[0] as ChatMessage).rerun?.();
    await waitUntil(() => server.run !== null);
    expect(server.run?.answers).toBe('m3');
  });
});
