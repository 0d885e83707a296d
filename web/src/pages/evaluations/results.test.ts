import { expect, test } from 'vitest';
import type { Said } from './queries';
import { asAnswer, checksOf, rowOf, wantedCalls, wholeTalk } from './result-values';
import { NOTHING, address, isFiltered, readAddress, type Asked } from './results-query';

test('what is asked is in the address, and comes back from it', () => {
  const asked: Asked = {
    search: 'a & b',
    variant: 'new',
    evaluator: 'exact',
    passed: false,
    status: 'error',
    flaky: true,
    cell: 'cell_3',
    slice: 'topic',
  };
  expect(readAddress(new URLSearchParams(String(address(asked))))).toEqual(asked);
  expect(readAddress(new URLSearchParams('status=odd&passed=maybe'))).toEqual(NOTHING);
  expect([
    String(address(NOTHING)),
    isFiltered(NOTHING),
    isFiltered({ ...NOTHING, passed: false }),
    isFiltered({ ...NOTHING, cell: 'cell_1' }),
  ]).toEqual(['', false, true, false]);
});

test('wanted calls are read from what people write down', () => {
  const call = (name: string, args: string) => ({ type: 'tool-call', call_id: 'wanted-0', name, arguments: args });
  expect(wantedCalls([{ name: 'search', arguments: { q: 'x' } }], false)?.[0]?.parts).toEqual([
    call('search', '{"q":"x"}'),
  ]);
  expect(
    wantedCalls({ tool_calls: [{ id: '1', function: { name: 'search', arguments: '{}' } }] }, false)?.[0]?.parts,
  ).toEqual([call('search', '{}')]);
  expect(wantedCalls(['search'], true)?.[0]?.parts).toEqual([call('search', '')]);
  for (const none of [['search'], [], 'search', [{ role: 'user', name: 'me', content: 'hi' }], [1], null])
    expect(wantedCalls(none, false)).toBeNull();
});

test('a script is told turn by turn, after what it begins with', () => {
  const user = (text: string): Said => ({ role: 'user', parts: [{ type: 'text', text }] });
  const start: Said = { role: 'system', parts: [{ type: 'text', text: 'Be kind.' }] };
  const turns = [
    { user: user('a'), messages: asAnswer('A') },
    { user: user('b'), messages: asAnswer('B') },
  ];
  const told = wholeTalk({ history: [start, user('a')], messages: [...asAnswer('A'), ...asAnswer('B')], turns });
  expect(told.map(({ parts }) => parts[0] && 'text' in parts[0] && parts[0].text)).toEqual([
    'Be kind.',
    'a',
    'A',
    'b',
    'B',
  ]);
  expect(wholeTalk({ history: [user('a')], messages: asAnswer('A'), turns: [{}] })).toEqual([
    user('a'),
    ...asAnswer('A'),
  ]);
});

test('a cell is of a row', () => {
  const two = { variants: ['a', 'b'], repeats: 1 };
  expect([rowOf('cell_0', two), rowOf('cell_7', two), rowOf('cell_7', { ...two, repeats: 3 })]).toEqual([1, 4, 2]);
});

test('checks of turns are found in the details of a score', () => {
  const checks = [{ name: 'text', passed: false, reason: 'no' }];
  const score = (details: object) => ({
    evaluator: 'e',
    status: 'scored' as const,
    details: details as Record<string, unknown>,
  });
  expect(
    checksOf({
      scores: [
        score({}),
        score({
          turns: [
            { score: 0, checks },
            { score: null, checks: [] },
          ],
        }),
      ],
    }),
  ).toEqual([checks, []]);
  expect(checksOf({ scores: [score({ turns: 'odd' })] })).toEqual([]);
});
