import { expect, it } from 'vitest';
import type { Run } from '@/api/types';
import { outputCalls, runSeconds, outputText, runTokens } from './run-output';

const replied = (reply: object): Run => ({ id: 'run_1', status: 'finished', reply }) as unknown as Run;
const said = (role: string, ...parts: object[]): object => ({ role, parts, metadata: {} });

const talked = replied({
  messages: [
    said(
      'assistant',
      { type: 'reasoning', text: 'Hm.' },
      { type: 'text', text: 'I ask.' },
      { type: 'tool-call', call_id: '1', name: 'add', arguments: '{}' },
    ),
    said('tool', { type: 'tool-result', call_id: '1', output: 5 }),
    said('assistant', { type: 'text', text: 'It is ' }, { type: 'text', text: 'five.' }),
  ],
});

it('the text of a run is its value, or what was said', () => {
  expect([
    outputText(replied({ messages: [], value: 'plain' })),
    outputText(replied({ messages: [], value: { a: 1 } })),
    outputText(talked),
    outputText(replied({ messages: [] })),
  ]).toEqual(['plain', '{\n  "a": 1\n}', 'I ask.\n\nIt is five.', '']);
});

it('its calls are those of all its messages', () => {
  expect(outputCalls(talked)).toEqual([{ name: 'add', arguments: '{}' }]);
});

it('it takes from its start to its end, or until now', () => {
  const started_at = '2026-11-15T21:51:18.000000Z';
  const now = Date.parse('2026-11-15T21:51:21.000Z');

  expect([
    runSeconds({ started_at, ended_at: '2026-11-15T21:51:18.500000Z' }, now),
    runSeconds({ started_at, ended_at: null }, now),
    runSeconds({ started_at: null, ended_at: null }, now),
  ]).toEqual([0.5, 3, null]);
});

it('its tokens are those it was given and those it made', () => {
  expect([
    runTokens({ usage: { input_tokens: 3, output_tokens: 4 } }),
    runTokens({ usage: { output_tokens: 4 } }),
    runTokens({ usage: null }),
  ]).toEqual([7, 4, null]);
});
