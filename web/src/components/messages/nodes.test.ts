import { describe, expect, test, it } from 'vitest';
import type { Run } from '@/api/client';
import { fakeNode } from '@/testing/fake-server';
import { lastNode, messagesOf, toNode, outputCalls, runSeconds, outputText, runTokens } from './nodes';

const parts = (...nodeParts: Parameters<typeof fakeNode>[0]['parts'] & object) =>
  messagesOf([fakeNode({ id: 'm1', role: 'assistant', parts: nodeParts })])[0]?.parts;

describe('a node as a message', () => {
  test('has all metadata of the node', () => {
    expect(
      messagesOf([
        fakeNode({
          id: 'm2',
          parent: 'm1',
          role: 'assistant',
          run: 'run_1',
          status: 'partial',
          siblings: ['m0', 'm2'],
          parts: [{ type: 'text', text: 'Because' }],
          usage: { input_tokens: 3, output_tokens: 4 },
          feedback: { up: 1, down: 0, mine: 'up' },
        }),
      ]),
    ).toEqual([
      {
        id: 'm2',
        role: 'assistant',
        parts: [{ type: 'text', text: 'Because', state: 'done' }],
        metadata: {
          nodes: ['m2'],
          parent: 'm1',
          siblings: ['m0', 'm2'],
          feedback: { up: 1, down: 0, mine: 'up' },
          status: 'partial',
          createdAt: '2026-01-01T00:00:00Z',
          runId: 'run_1',
          usage: { inputTokens: 3, outputTokens: 4, totalTokens: 7 },
        },
      },
    ]);
  });

  test('has the duration if the server reports it', () => {
    const [message] = messagesOf([
      { ...fakeNode({ id: 'm1', role: 'assistant' }), seconds: 1.5 } as ReturnType<typeof fakeNode>,
    ]);
    expect(message?.metadata?.seconds).toBe(1.5);
  });

  test('records roles that UI messages do not have', () => {
    const roles = (['user', 'system', 'developer', 'assistant', 'tool'] as const).map(
      (role) => messagesOf([fakeNode({ id: 'm1', role })])[0],
    );
    expect(roles.map((message) => [message?.role, message?.metadata?.role])).toEqual([
      ['user', undefined],
      ['system', undefined],
      ['system', 'developer'],
      ['assistant', undefined],
      ['assistant', 'tool'],
    ]);
  });

  test('has the error of a failed node', () => {
    const [message] = messagesOf([
      fakeNode({ id: 'm1', role: 'assistant', status: 'failed', error: { code: 'model_gone', message: 'No model.' } }),
    ]);
    expect(message?.metadata).toMatchObject({ status: 'failed', error: { code: 'model_gone', message: 'No model.' } });
  });
});

describe('message parts', () => {
  test('are text with its sources, reasoning and refusals', () => {
    expect(
      parts(
        { type: 'reasoning', text: 'Hm.' },
        {
          type: 'text',
          text: 'So.',
          annotations: [
            { kind: 'url', url: 'https://a.example', title: 'A' },
            { kind: 'file', title: 'no link' },
          ],
        },
        { type: 'refusal', text: 'No.' },
      ),
    ).toEqual([
      { type: 'reasoning', text: 'Hm.', state: 'done' },
      { type: 'text', text: 'So.', state: 'done' },
      { type: 'source-url', sourceId: 'm1.s0', url: 'https://a.example', title: 'A' },
      { type: 'text', text: 'No.', state: 'done', providerMetadata: { palaver: { refusal: true } } },
    ]);
  });

  test('are files by id, data or URL', () => {
    expect(
      parts(
        { type: 'file', media_type: 'image/png', file_id: 'file_1', filename: 'sky.png' },
        { type: 'file', media_type: 'image/png', data: 'AAAA' },
        { type: 'file', media_type: 'text/plain', url: 'https://a.example/b' },
      ),
    ).toEqual([
      { type: 'file', mediaType: 'image/png', url: '/api/files/file_1', filename: 'sky.png' },
      { type: 'file', mediaType: 'image/png', url: 'data:image/png;base64,AAAA' },
      { type: 'file', mediaType: 'text/plain', url: 'https://a.example/b' },
    ]);
  });

  test('are tool calls, whose arguments may be invalid JSON', () => {
    const call = (args: string) => parts({ type: 'tool-call', call_id: 'c1', name: 'look', arguments: args });
    const expectedInput = (input: unknown) => [
      { type: 'dynamic-tool', toolName: 'look', toolCallId: 'c1', state: 'input-available', input },
    ];
    expect([call('{"a":1}'), call(''), call('{"a'), call('[1]')]).toEqual([
      expectedInput({ a: 1 }),
      expectedInput({}),
      expectedInput('{"a'),
      expectedInput([1]),
    ]);
  });

  test('are data of any name, each with a unique id', () => {
    expect(parts({ type: 'data', name: 'output', value: 1 }, { type: 'data', name: 'output', value: null })).toEqual([
      { type: 'data-output', id: 'm1.d0', data: 1 },
      { type: 'data-output', id: 'm1.d1', data: null },
    ]);
  });
});

describe('the nodes of one run', () => {
  const conversation = [
    fakeNode({ id: 'u1', role: 'user', parts: [{ type: 'text', text: 'Time?' }] }),
    fakeNode({
      id: 'a1',
      parent: 'u1',
      role: 'assistant',
      run: 'run_1',
      parts: [{ type: 'tool-call', call_id: 'c1', name: 'clock', arguments: '' }],
    }),
    fakeNode({
      id: 't1',
      parent: 'a1',
      role: 'tool',
      run: 'run_1',
      parts: [{ type: 'tool-result', call_id: 'c1', output: '12:00', is_error: false }],
    }),
    fakeNode({
      id: 'a2',
      parent: 't1',
      role: 'assistant',
      run: 'run_1',
      parts: [{ type: 'text', text: 'Noon.' }],
      status: 'partial',
      usage: { input_tokens: 1, output_tokens: 2 },
      feedback: { up: 0, down: 1, mine: 'down' },
    }),
  ];

  test('form one message with the id of the first node, and results are added to their calls', () => {
    const [, answer, ...rest] = messagesOf(conversation);
    expect(rest).toEqual([]);
    expect(answer).toMatchObject({
      id: 'a1',
      metadata: {
        nodes: ['a1', 't1', 'a2'],
        parent: 'u1',
        status: 'partial',
        usage: { inputTokens: 1, outputTokens: 2, totalTokens: 3 },
      },
    });
    expect(answer?.parts).toEqual([
      {
        type: 'dynamic-tool',
        toolName: 'clock',
        toolCallId: 'c1',
        state: 'output-available',
        input: {},
        output: '12:00',
      },
      { type: 'text', text: 'Noon.', state: 'done' },
    ]);
  });

  test('have the feedback of the last node', () => {
    expect(messagesOf(conversation)[1]?.metadata?.feedback).toEqual({ up: 0, down: 1, mine: 'down' });
  });

  test('are separate from those of the next run', () => {
    const next = fakeNode({ id: 'b1', parent: 'a2', role: 'assistant', run: 'run_2' });
    expect(messagesOf([...conversation, next]).map(({ id }) => id)).toEqual(['u1', 'a1', 'b1']);
  });

  test('are separate from inserted assistant messages', () => {
    const inserted = fakeNode({ id: 'p1', parent: 'a2', role: 'assistant', run: null });
    expect(
      messagesOf([...conversation, inserted, { ...inserted, id: 'p2', parent: 'p1' }]).map(({ id }) => id),
    ).toEqual(['u1', 'a1', 'p1', 'p2']);
  });

  test('show the error of a tool', () => {
    const failed = fakeNode({
      id: 't1',
      parent: 'a1',
      role: 'tool',
      run: 'run_1',
      parts: [{ type: 'tool-result', call_id: 'c1', output: { why: 1 }, is_error: true }],
    });
    expect(messagesOf([...conversation.slice(0, 2), failed])[1]?.parts).toEqual([
      {
        type: 'dynamic-tool',
        toolName: 'clock',
        toolCallId: 'c1',
        state: 'output-error',
        input: {},
        errorText: '{"why":1}',
      },
    ]);
  });
});

describe('an approval', () => {
  const request = fakeNode({
    id: 'a1',
    role: 'assistant',
    run: 'run_1',
    parts: [
      { type: 'tool-call', call_id: 'c1', name: 'erase', arguments: '{"all":true}' },
      { type: 'data', name: 'approval-request', value: { id: 'ap1', call_id: 'c1' } },
    ],
  });
  const answer = (approve: boolean, reason?: string) =>
    fakeNode({
      id: 'w1',
      parent: 'a1',
      role: 'user',
      parts: [
        { type: 'data', name: 'approval-response', value: { id: 'ap1', approve, ...(reason ? { reason } : {}) } },
      ],
    });
  const call = { type: 'dynamic-tool', toolName: 'erase', toolCallId: 'c1', input: { all: true } };

  test('is requested on its call', () => {
    expect(messagesOf([request])[0]?.parts).toEqual([
      { ...call, state: 'approval-requested', approval: { id: 'ap1' } },
    ]);
  });

  test('without its call is shown as data', () => {
    const [message] = messagesOf([{ ...request, parts: request.parts.slice(1) }]);
    expect(message?.parts).toEqual([
      { type: 'data-approval-request', id: 'a1.d0', data: { id: 'ap1', call_id: 'c1' } },
    ]);
  });

  test('is recorded on its call, and the next run continues the same message', () => {
    const after = fakeNode({
      id: 'a2',
      parent: 'w1',
      role: 'assistant',
      run: 'run_2',
      parts: [{ type: 'text', text: 'Kept.' }],
    });
    const messages = messagesOf([request, answer(false, 'No!'), after]);
    expect(messages.map(({ id, metadata }) => [id, metadata?.nodes, metadata?.runId])).toEqual([
      ['a1', ['a1', 'w1', 'a2'], 'run_2'],
    ]);
    expect(messages[0]?.parts).toEqual([
      { ...call, state: 'approval-responded', approval: { id: 'ap1', approved: false, reason: 'No!' } },
      { type: 'text', text: 'Kept.', state: 'done' },
    ]);
  });

  test('whose request is not loaded is a separate message', () => {
    expect(messagesOf([answer(true)]).map(({ id, role }) => [id, role])).toEqual([['w1', 'user']]);
  });
});

test('shows every node in one message, which has the id of its first node', () => {
  const random = seeded(7);
  for (let round = 0; round < 200; round++) {
    const nodes = Array.from({ length: 12 }, (_, index) =>
      fakeNode({
        id: `m${index}`,
        role: random(['user', 'assistant', 'tool', 'system'] as const),
        run: random([null, 'run_1', 'run_2']),
        parts: random([
          [],
          [{ type: 'text', text: 'x' }],
          [{ type: 'data', name: 'approval-response', value: { id: 'ap1', approve: true } }],
        ] as const) as never,
      }),
    );
    const messages = messagesOf(nodes);
    expect(messages.flatMap(({ metadata }) => metadata?.nodes ?? [])).toEqual(nodes.map(({ id }) => id));
    expect(messages.map(({ metadata }) => metadata?.nodes?.[0])).toEqual(messages.map(({ id }) => id));
  }
});

describe('a UI message as a node', () => {
  test('has parts in the API format, with stored files by id', () => {
    expect(
      toNode({
        id: 'ui_1',
        role: 'user',
        parts: [
          { type: 'file', mediaType: 'image/png', url: '/below/api/files/file_01k', filename: 'sky.png' },
          { type: 'file', mediaType: 'image/png', url: 'https://a.example/b.png' },
          { type: 'text', text: 'What is this?' },
          { type: 'step-start' },
        ],
      }),
    ).toEqual({
      id: 'ui_1',
      role: 'user',
      parts: [
        { type: 'file', media_type: 'image/png', filename: 'sky.png', file_id: 'file_01k' },
        { type: 'file', media_type: 'image/png', url: 'https://a.example/b.png' },
        { type: 'text', text: 'What is this?' },
      ],
    });
  });

  test('keeps a role that UI messages do not have', () => {
    expect(toNode({ id: 'ui_1', role: 'system', parts: [], metadata: { role: 'developer' } }).role).toBe('developer');
  });
});

test('finds the last node that is stored and has not failed', () => {
  const branch = messagesOf([
    fakeNode({ id: 'u1', role: 'user' }),
    fakeNode({ id: 'a1', role: 'assistant', status: 'failed', run: 'run_1' }),
  ]);
  expect(lastNode(branch)).toBe('u1');
  expect(lastNode([...branch.slice(0, 1), { id: 'ui_1', role: 'assistant', parts: [] }])).toBe('u1');
  expect(lastNode([])).toBeNull();
});

function seeded(seed: number) {
  let state = seed;
  return <T>(choices: readonly T[]): T => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return choices[Math.floor((state / 2147483648) * choices.length)] as T;
  };
}

const runWithReply = (reply: object): Run => ({ id: 'run_1', status: 'finished', reply }) as unknown as Run;
const message = (role: string, ...content: object[]): object => ({ role, parts: content, metadata: {} });

const conversation = runWithReply({
  messages: [
    message(
      'assistant',
      { type: 'reasoning', text: 'Hm.' },
      { type: 'text', text: 'I ask.' },
      { type: 'tool-call', call_id: '1', name: 'add', arguments: '{}' },
    ),
    message('tool', { type: 'tool-result', call_id: '1', output: 5 }),
    message('assistant', { type: 'text', text: 'It is ' }, { type: 'text', text: 'five.' }),
  ],
});

it('the text of a run is its value, or the text of its assistant messages', () => {
  expect([
    outputText(runWithReply({ messages: [], value: 'plain' })),
    outputText(runWithReply({ messages: [], value: { a: 1 } })),
    outputText(conversation),
    outputText(runWithReply({ messages: [] })),
  ]).toEqual(['plain', '{\n  "a": 1\n}', 'I ask.\n\nIt is five.', '']);
});

it('the tool calls of a run are those of all its messages', () => {
  expect(outputCalls(conversation)).toEqual([{ name: 'add', arguments: '{}' }]);
});

it('the duration of a run is from its start to its end, or until now', () => {
  const started_at = '2026-11-15T21:51:18.000000Z';
  const now = Date.parse('2026-11-15T21:51:21.000Z');

  expect([
    runSeconds({ started_at, ended_at: '2026-11-15T21:51:18.500000Z' }, now),
    runSeconds({ started_at, ended_at: null }, now),
    runSeconds({ started_at: null, ended_at: null }, now),
  ]).toEqual([0.5, 3, null]);
});

it('the tokens of a run are its input and output tokens', () => {
  expect([
    runTokens({ usage: { input_tokens: 3, output_tokens: 4 } }),
    runTokens({ usage: { output_tokens: 4 } }),
    runTokens({ usage: null }),
  ]).toEqual([7, 4, null]);
});
