import { expect, test } from 'vitest';
import {
  type ResultMessage,
  EMPTY_RESULTS_QUERY,
  resultsQueryParams,
  isFiltered,
  parseResultsQuery,
  type ResultsQuery,
} from './queries';
import { answerMessages, turnChecks, rowNumber, expectedCalls, wholeConversation } from './result-values';

test('reads a query back from its URL parameters, and ignores invalid ones', () => {
  const query: ResultsQuery = {
    search: 'a & b',
    variant: 'new',
    evaluator: 'exact',
    passed: false,
    status: 'error',
    flaky: true,
    cell: 'cell_3',
    slice: 'topic',
  };
  expect(parseResultsQuery(new URLSearchParams(String(resultsQueryParams(query))))).toEqual(query);
  expect(parseResultsQuery(new URLSearchParams('status=odd&passed=maybe'))).toEqual(EMPTY_RESULTS_QUERY);
  expect([
    String(resultsQueryParams(EMPTY_RESULTS_QUERY)),
    isFiltered(EMPTY_RESULTS_QUERY),
    isFiltered({ ...EMPTY_RESULTS_QUERY, passed: false }),
    isFiltered({ ...EMPTY_RESULTS_QUERY, cell: 'cell_1' }),
  ]).toEqual(['', false, true, false]);
});

test('parses expected calls in several formats, and rejects other values', () => {
  const call = (name: string, args: string) => ({ type: 'tool-call', call_id: 'wanted-0', name, arguments: args });
  expect(expectedCalls([{ name: 'search', arguments: { q: 'x' } }], false)?.[0]?.parts).toEqual([
    call('search', '{"q":"x"}'),
  ]);
  expect(
    expectedCalls({ tool_calls: [{ id: '1', function: { name: 'search', arguments: '{}' } }] }, false)?.[0]?.parts,
  ).toEqual([call('search', '{}')]);
  expect(expectedCalls(['search'], true)?.[0]?.parts).toEqual([call('search', '')]);
  for (const invalid of [['search'], [], 'search', [{ role: 'user', name: 'me', content: 'hi' }], [1], null])
    expect(expectedCalls(invalid, false)).toBeNull();
});

test('shows the turns of a script as one conversation after its history', () => {
  const user = (text: string): ResultMessage => ({ role: 'user', parts: [{ type: 'text', text }] });
  const start: ResultMessage = { role: 'system', parts: [{ type: 'text', text: 'Be kind.' }] };
  const turns = [
    { user: user('a'), messages: answerMessages('A') },
    { user: user('b'), messages: answerMessages('B') },
  ];
  const conversation = wholeConversation({
    history: [start, user('a')],
    messages: [...answerMessages('A'), ...answerMessages('B')],
    turns,
  });
  expect(conversation.map(({ parts }) => parts[0] && 'text' in parts[0] && parts[0].text)).toEqual([
    'Be kind.',
    'a',
    'A',
    'b',
    'B',
  ]);
  expect(wholeConversation({ history: [user('a')], messages: answerMessages('A'), turns: [{}] })).toEqual([
    user('a'),
    ...answerMessages('A'),
  ]);
});

test('derives the row number from the cell id, the variants and the repeats', () => {
  const twoVariants = { variants: ['a', 'b'], repeats: 1 };
  expect([
    rowNumber('cell_0', twoVariants),
    rowNumber('cell_7', twoVariants),
    rowNumber('cell_7', { ...twoVariants, repeats: 3 }),
  ]).toEqual([1, 4, 2]);
});

test('finds the checks of turns in the details of a score', () => {
  const checks = [{ name: 'text', passed: false, reason: 'no' }];
  const score = (details: object) => ({
    evaluator: 'e',
    status: 'scored' as const,
    details: details as Record<string, unknown>,
  });
  expect(
    turnChecks({
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
  expect(turnChecks({ scores: [score({ turns: 'odd' })] })).toEqual([]);
});

const { EventStreamParser } = await import('./live-progress');

test('parses events from chunks that are split anywhere', () => {
  const parser = new EventStreamParser();
  expect(parser.feed('id: 1\nevent: progress\nda')).toEqual([]);
  expect(parser.feed('ta: {"done": 1}\n\n: still here\n\nid: 2\ndata: {"a":\ndata: 1}\n')).toEqual(['{"done": 1}']);
  expect(parser.feed('\ndata: {}\n\n')).toEqual(['{"a":\n1}', '{}']);
});
