import { describe, expect, test } from 'vitest';
import { messagesOf } from '@/components/messages/nodes';
import { fakeNode } from '@/testing/fake-server';
import { Branch, messagesBody, prependOlder, reuseMessages, withoutNodes, type ThreadSnapshot } from './branch';

const chain = (...ids: string[]) =>
  ids.map((id, index) =>
    fakeNode({ id, parent: ids[index - 1] ?? null, role: 'user', parts: [{ type: 'text', text: id }] }),
  );
const ids = (list: readonly { id: string }[]) => list.map(({ id }) => id);

test('reuses the objects of unchanged messages', () => {
  const before = messagesOf(chain('a', 'b'));
  const after = reuseMessages(
    before,
    messagesOf([...chain('a', 'b').slice(0, 1), fakeNode({ id: 'b', parent: 'a', role: 'user' })]),
  );
  expect([after[0] === before[0], after[1] === before[1]]).toEqual([true, false]);
});

describe('prepending older nodes', () => {
  const run = ['a', 'b', 'c', 'd'].map((id, index) =>
    fakeNode({ id, parent: 'abc'[index - 1] ?? 'q', role: 'assistant', run: 'run_1' }),
  );

  test('puts their messages before the known ones', () => {
    expect(
      ids(
        prependOlder(messagesOf(chain('a', 'b', 'c').slice(2)), chain('a', 'b'), chain('a', 'b', 'c').slice(2), false),
      ),
    ).toEqual(['a', 'b', 'c']);
  });

  test('merges the nodes of one run into one message, unless the run is in progress', () => {
    const laterMessages = messagesOf(run.slice(2));
    expect(
      prependOlder(laterMessages, run.slice(0, 2), run.slice(2), false).map(({ metadata }) => metadata?.nodes),
    ).toEqual([['a', 'b', 'c', 'd']]);
    expect(ids(prependOlder(laterMessages, run.slice(0, 2), run.slice(2), true))).toEqual(['a', 'c']);
  });
});

test('reconnects a branch after nodes were removed', () => {
  expect(withoutNodes(chain('a', 'b', 'c', 'd'), ['b', 'c']).map(({ id, parent }) => [id, parent])).toEqual([
    ['a', null],
    ['d', 'a'],
  ]);
  expect(withoutNodes(chain('a', 'b'), ['a']).map(({ id, parent }) => [id, parent])).toEqual([['b', null]]);
});

describe('a branch', () => {
  const snapshot = (nodes: ThreadSnapshot['nodes']): Pick<ThreadSnapshot, 'thread' | 'nodes'> => ({
    nodes,
    thread: { head: nodes.at(-1)?.id ?? null } as ThreadSnapshot['thread'],
  });

  test('appends new nodes and keeps older ones, as long as they are connected', () => {
    const branch = new Branch();
    branch.merge(snapshot(chain('a', 'b', 'c')));
    branch.merge(snapshot(chain('a', 'b', 'c', 'd').slice(2)));
    expect([ids(branch.nodes), branch.older, branch.head]).toEqual([['a', 'b', 'c', 'd'], null, 'd']);
    branch.merge(snapshot([fakeNode({ id: 'c', parent: 'x', role: 'user' })]));
    expect([ids(branch.nodes), branch.older]).toEqual([['c'], 'x']);
  });

  test('lists unsent approvals and messages, approvals first, until they are stored', () => {
    const branch = new Branch();
    branch.merge(snapshot([fakeNode({ id: 'a', role: 'assistant', run: 'run_1' })]));
    const message = { id: 'ui_1', role: 'user' as const, parts: [{ type: 'text' as const, text: 'Hi' }] };
    branch.unsent.push(message);
    branch.approvals.push({ message: 'a', id: 'ap1', approve: true });
    const messages = [...branch.toMessages(new Map()), message];
    const unsent = branch.unsentIn(messages);
    expect(messagesBody(unsent)).toEqual([
      { role: 'user', parts: [{ type: 'data', name: 'approval-response', value: { id: 'ap1', approve: true } }] },
      { id: 'ui_1', role: 'user', parts: [{ type: 'text', text: 'Hi' }] },
    ]);
    expect(branch.unsentIn(messages.slice(0, 1))).toEqual({ approvals: branch.approvals, messages: [] });
    branch.recordStored(unsent, [
      fakeNode({ id: 'w', parent: 'a', role: 'user' }),
      fakeNode({ id: 'ui_1', parent: 'w', role: 'user' }),
    ]);
    expect([branch.unsentIn(messages), ids(branch.nodes), branch.head, branch.end(messages)]).toEqual([
      { approvals: [], messages: [] },
      ['a', 'w', 'ui_1'],
      'ui_1',
      'w',
    ]);
  });

  test('drops unsent messages that a snapshot contains', () => {
    const branch = new Branch();
    branch.unsent.push({ id: 'b', role: 'user', parts: [] });
    branch.merge(snapshot(chain('a', 'b')));
    expect(branch.unsent).toEqual([]);
  });

  test('uses the measured duration of an answer unless the server reports one', () => {
    const branch = new Branch();
    branch.merge(
      snapshot([
        fakeNode({ id: 'a', role: 'assistant', run: 'run_1' }),
        { ...fakeNode({ id: 'b', role: 'assistant', run: 'run_2' }), seconds: 5 } as ThreadSnapshot['nodes'][number],
      ]),
    );
    expect(
      branch
        .toMessages(
          new Map([
            ['run_1', 1],
            ['run_2', 2],
          ]),
        )
        .map(({ metadata }) => metadata?.seconds),
    ).toEqual([1, 5]);
  });
});
