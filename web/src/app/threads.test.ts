import { expect, test } from 'vitest';
import { threadPath, threadFromPath } from './threads';

const board = { id: 'brd_1', cells: [{ row: 'r1', column: 'c2', thread: 'conv_a', run: null }] };

test('a thread of a board is shown in its cell', () => {
  expect(threadPath('conv_a', board)).toBe('/play/brd_1?cell=r1.c2');
});

test('a thread whose cell was dropped, or that has no board, is shown alone', () => {
  expect(threadPath('conv_b', board)).toBe('/play/conv_b');
  expect(threadPath('conv_b', undefined)).toBe('/play/conv_b');
});

test('an address names a thread by its id or by the cell it is in', () => {
  expect(threadFromPath('conv_a', null, undefined)).toBe('conv_a');
  expect(threadFromPath('brd_1', 'r1.c2', board)).toBe('conv_a');
  expect(threadFromPath('brd_1', 'r9.c9', board)).toBeNull();
  expect(threadFromPath('brd_1', null, board)).toBeNull();
});
