import { expect, it } from 'vitest';
import type { Preview } from '@/api/client';
import { isComplete, formatJsonText, omittedCount, parsePreview } from './preview';

const text: Preview = { renderer: 'text', text: 'one', body: 'one', cut: 0 };
const chat: Preview = {
  renderer: 'chat',
  text: 'Hi',
  role: 'user',
  count: 3,
  path: '/messages',
  dialect: 'chat-completions',
  messages: [{ index: 0, role: 'user', text: 'Hi', cut: 4, calls: [], attachments: 0 }],
  more: 2,
};

it('parses a preview, and treats other values as empty', () => {
  const empty = { renderer: 'empty', text: '' };

  expect([text, null, undefined, 'text', { renderer: 'hologram' }].map(parsePreview)).toEqual([
    text,
    empty,
    empty,
    empty,
    empty,
  ]);
});

it('counts the omitted characters and messages of a preview', () => {
  expect([omittedCount(chat), omittedCount(text), omittedCount({ ...text, cut: 7 })]).toEqual([
    { characters: 4, messages: 2 },
    { characters: 0, messages: 0 },
    { characters: 7, messages: 0 },
  ]);
  expect([isComplete(text), isComplete(chat)]).toEqual([true, false]);
});

it('indents complete JSON, but not truncated JSON', () => {
  expect([formatJsonText('{"a":[1]}'), formatJsonText('{"a":[1')]).toEqual(['{\n  "a": [\n    1\n  ]\n}', '{"a":[1']);
});
