import { expect, test } from 'vitest';
import { isMessages, isScript, messagesIn, scriptMessages, editableText, withEditedText } from './cell-messages';

const call = {
  role: 'assistant',
  content: null,
  tool_calls: [{ id: 'c1', type: 'function', function: { name: 'search', arguments: '{"q": "a"}' } }],
};

test('a conversation is told in little, with its tool calls', () => {
  expect(
    messagesIn([
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Hi' },
          { type: 'image_url', image_url: {} },
        ],
      },
      call,
    ]),
  ).toEqual([
    { role: 'user', text: 'Hi', calls: [], attachments: 1 },
    { role: 'assistant', text: '', calls: ['search({"q": "a"})'], attachments: 0 },
  ]);
});

test('what is none, or has another form, is left to the server', () => {
  expect([messagesIn([]), messagesIn('hi'), messagesIn([{ role: 'user', content: { a: 1 } }])]).toEqual([
    null,
    null,
    null,
  ]);
  expect([isMessages([{ role: 'user', content: 'a' }]), isMessages([{ role: 'user' }]), isMessages([1])]).toEqual([
    true,
    false,
    false,
  ]);
});

test('a script is known by its turns', () => {
  const script = {
    turns: [
      { user: 'One' },
      { assistant: { role: 'assistant', content: 'Two' } },
      { simulate: { workflow: 'w', goal: 'Three' } },
    ],
  };
  expect([isScript(script), isScript({ turns: [] }), isScript({ turns: [{ user: 'a', assistant: 'b' }] })]).toEqual([
    true,
    false,
    false,
  ]);
  expect(scriptMessages(script).map(({ role, text }) => [role, text])).toEqual([
    ['user', 'One'],
    ['assistant', 'Two'],
    ['simulate', 'Three'],
  ]);
});

test('a text is written where it stands, and everything else stays as it is', () => {
  const parts = { role: 'user', content: [{ type: 'input_text', text: 'a', cache: 1 }] };
  expect([
    editableText(call),
    editableText(parts),
    editableText({ role: 'user', content: [{ text: 'a' }, { text: 'b' }] }),
  ]).toEqual(['', 'a', null]);
  expect(withEditedText(call, '')).toBe(call);
  expect(withEditedText(call, 'Let me see')).toEqual({ ...call, content: 'Let me see' });
  expect(withEditedText(parts, 'b')).toEqual({ role: 'user', content: [{ type: 'input_text', text: 'b', cache: 1 }] });
});
