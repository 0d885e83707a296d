import { describe, expect, test } from 'vitest';
import { sessionBranches, messagesUpTo, sessionFromPath } from '@/pages/sessions/detail';
import { stepItems, conversationSteps, type Message, type Step } from './conversation-steps';

const makeMessage = (role: Message['role'], ...parts: Message['parts']): Message => ({ role, parts });
const text = (content: string): Message['parts'][number] => ({ type: 'text', text: content });
const step = (message: Message, trace = 't1'): Step => ({ type: 'message', trace_id: trace, span_id: 's1', message });
const tool = (more: object = {}): Step => ({
  type: 'tool',
  trace_id: 't1',
  span_id: 's9',
  name: 'weather',
  call_id: null,
  inputs: { city: 'Oslo' },
  outputs: 'Rain',
  status: 'ok',
  ...more,
});
const call: Message['parts'][number] = { type: 'tool-call', call_id: 'c1', name: 'add', arguments: '{"a":1}' };
const result: Message['parts'][number] = { type: 'tool-result', call_id: 'c1', output: 3 };

describe('the steps of a conversation', () => {
  test('become messages, with a call, its result and the following text in one answer', () => {
    const items = stepItems(
      conversationSteps('t1', 's1', [
        makeMessage('user', text('1+2?')),
        makeMessage('assistant', call),
        makeMessage('tool', result),
        makeMessage('assistant', text('3.')),
      ]),
    );
    expect(
      items.map((item) => [item.kind, item.messageCount, item.stepCount, item.kind === 'message' && item.message.role]),
    ).toEqual([
      ['message', 1, 1, 'user'],
      ['message', 4, 4, 'assistant'],
    ]);
    const [, answer] = items;
    expect(answer?.kind === 'message' && answer.message.parts).toEqual([
      {
        type: 'dynamic-tool',
        toolName: 'add',
        toolCallId: 'c1',
        state: 'output-available',
        input: { a: 1 },
        output: 3,
      },
      { type: 'text', text: '3.', state: 'done' },
    ]);
  });

  test('show a result without its call as data', () => {
    const [item] = stepItems([step(makeMessage('tool', result))]);
    expect(item?.kind === 'message' && item.message.parts).toEqual([
      { type: 'data-result of c1', id: '0.d0', data: 3 },
    ]);
  });

  test('include tools that no message mentions, in order and with their outcome', () => {
    const items = stepItems([
      step(makeMessage('user', text('Rain?'))),
      tool(),
      tool({ span_id: 's8', status: 'error', outputs: null }),
      tool({ status: 'error', outputs: { code: 1 } }),
      tool({ status: 'cancelled' }),
      step(makeMessage('assistant', text('Yes.'))),
    ]);
    expect(
      items.map((item) =>
        item.kind === 'tool'
          ? [item.messageCount, item.tool.state, 'errorText' in item.tool ? item.tool.errorText : null]
          : item.messageCount,
      ),
    ).toEqual([
      1,
      [1, 'output-available', null],
      [1, 'output-error', 'The tool call failed.'],
      [1, 'output-error', '{"code":1}'],
      [1, 'input-streaming', null],
      2,
    ]);
  });

  test('start a new message with every trace, and omit empty messages', () => {
    const items = stepItems([
      step(makeMessage('assistant', text('a'))),
      step(makeMessage('assistant', text('b')), 't2'),
      step(makeMessage('assistant'), 't2'),
    ]);
    expect(items.map((item) => item.trace)).toEqual(['t1', 't2']);
  });
});

describe('a session', () => {
  const [one, second, third] = ['Hi', 'Hello', 'Bye'].map((content, index) =>
    step(makeMessage('user', text(content)), `t${index}`),
  ) as [Step, Step, Step];

  test('has a branch for each tab, which starts with the shared steps', () => {
    const branches = sessionBranches([
      { origin: null, steps: [one, second] },
      { origin: { tab: 0, steps: 1 }, steps: [third] },
      { origin: { tab: 1, steps: 2 }, steps: [second] },
      { origin: { tab: 9, steps: 2 }, steps: [one] },
    ]);
    expect(branches.map(({ steps, shared, traces }) => [steps, shared, traces])).toEqual([
      [[one, second], 0, 2],
      [[one, third], 1, 2],
      [[one, third, second], 2, 3],
      [[one], 0, 1],
    ]);
  });

  test('continues with the messages up to a step', () => {
    expect(messagesUpTo([one, tool(), second], 2)).toEqual([makeMessage('user', text('Hi'))]);
  });

  test('is named by its URL, even if the name has special characters', () => {
    expect(sessionFromPath('/sessions/s-1', '')).toBe('s-1');
    expect(sessionFromPath('/root/sessions/a%252Fb%2Fc', '')).toBe('a%2Fb/c');
    expect(sessionFromPath('/sessions/_', '?session=..%2F%25')).toBe('../%');
    expect([sessionFromPath('/sessions/%E0%A4%A', ''), sessionFromPath('/sessions', '')]).toEqual(['%E0%A4%A', null]);
  });
});
