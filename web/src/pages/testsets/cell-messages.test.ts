import { expect, test } from 'vitest';
import { isMessages, isScript, messagesIn, scriptMessages, editableText, withEditedText } from './cell-messages';

const call = {
  role: 'assistant',
  content: null,
  tool_calls: [{ id: 'c1', type: 'function', function: { name: 'search', arguments: '{"q": "a"}' } }],
};

test('summarizes a conversation with its tool calls and attachments', () => {
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

test('extracts no messages from empty lists, other values and unknown formats', () => {
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

test('recognizes a script by its turns and lists their messages', () => {
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

test('edits the text of a message and keeps everything else', () => {
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
