import { expect, test } from 'vitest';
import { placeOf, threadAt } from './threads';

const board = { id: 'brd_1', cells: [{ row: 'r1', column: 'c2', thread: 'conv_a', run: null }] };

test('a thread of a board is shown in its cell', () => {
  expect(placeOf('conv_a', board)).toBe('/play/brd_1?cell=r1.c2');
});

test('a thread whose cell was dropped, or that has no board, is shown alone', () => {
  expect(placeOf('conv_b', board)).toBe('/play/conv_b');
  expect(placeOf('conv_b', undefined)).toBe('/play/conv_b');
});

test('an address names a thread by its id or by the cell it is in', () => {
  expect(threadAt('conv_a', null, undefined)).toBe('conv_a');
  expect(threadAt('brd_1', 'r1.c2', board)).toBe('conv_a');
  expect(threadAt('brd_1', 'r9.c9', board)).toBeNull();
  expect(threadAt('brd_1', null, board)).toBeNull();
});
