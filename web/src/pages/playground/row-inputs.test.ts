import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Board } from '@/api/client';
import { queryClient, workflowQuery } from '@/api/queries';
import { BoardStore } from './board-store';
import { hasInputs, initialInputs, rowInputs } from './row-inputs';

const BOARD = {
  id: '',
  name: '',
  mode: 'chat',
  testset: null,
  layout: {},
  cells: [],
  columns: [{ id: 'c1', workflow: 'mender', variant: 'default', parameters: {} }],
  rows: [
    { id: 'r1', name: '', inputs: { context: { code: 'a' } } },
    { id: 'r2', name: '', inputs: {} },
  ],
} as unknown as Board;

const cacheWorkflow = (name: string, properties: object) =>
  queryClient.setQueryData(workflowQuery(name).queryKey, { schemas: { inputs: { properties } } } as never);

beforeEach(() => {
  cacheWorkflow('mender', {
    context: { type: 'object', default: { code: '', adaptor: 'http' } },
    log: { type: 'string', default: null },
    text: { examples: ['Hi'] },
  });
  cacheWorkflow('tutor', { text: { examples: ['Ho'] }, subject: { examples: ['maths'] } });
});
afterEach(() => queryClient.clear());

test('a new row starts with the examples of its workflows, preferring earlier workflows', () => {
  expect(initialInputs([{ workflow: 'mender' }, { workflow: 'tutor' }, { workflow: 'unknown' }])).toEqual({
    text: 'Hi',
    subject: 'maths',
  });
});

describe('the inputs of a row', () => {
  test('are updated in the board, and listeners are notified', () => {
    const store = new BoardStore(BOARD, null);
    const inputs = rowInputs(store, 'r1', 'mender');
    const listener = vi.fn();
    inputs.subscribe(listener);
    expect(inputs.read()).toBe(inputs.read());
    inputs.change((values) => ({ ...values, log: 'x' }));
    expect([inputs.read(), listener.mock.calls.length]).toEqual([{ context: { code: 'a' }, log: 'x' }, 1]);
    expect(store.board.rows[1]).toBe(BOARD.rows[1]);
  });

  test('have the non-null defaults of the schema, and none for an unknown workflow or row', () => {
    const store = new BoardStore(BOARD, null);
    expect(rowInputs(store, 'r2', 'mender').defaults()).toEqual({ context: { code: '', adaptor: 'http' } });
    expect([rowInputs(store, 'r2', 'unknown').defaults(), rowInputs(store, 'gone', 'mender').read()]).toEqual([{}, {}]);
  });
});

test.each([
  [{ properties: { messages: {} }, additionalProperties: false }, false],
  [{ properties: { messages: {}, subject: {} }, additionalProperties: false }, true],
  [{ properties: { messages: {} }, additionalProperties: true }, true],
  [{ type: 'object', additionalProperties: true }, true],
  [{}, false],
])('a thread whose inputs have the schema %j has a form: %s', (schema, expected) => {
  expect(hasInputs(schema)).toBe(expected);
});
