import { expect, test } from 'vitest';
import { threadPath, threadFromPath } from './threads';

const board = { id: 'brd_1', cells: [{ row: 'r1', column: 'c2', thread: 'conv_a', run: null }] };

test('links to a thread of a board by its cell', () => {
  expect(threadPath('conv_a', board)).toBe('/play/brd_1?cell=r1.c2');
});

test('links directly to a thread without a cell or without a board', () => {
  expect(threadPath('conv_b', board)).toBe('/play/conv_b');
  expect(threadPath('conv_b', undefined)).toBe('/play/conv_b');
});

test('reads the thread of a URL from its id, or from the board and cell', () => {
  expect(threadFromPath('conv_a', null, undefined)).toBe('conv_a');
  expect(threadFromPath('brd_1', 'r1.c2', board)).toBe('conv_a');
  expect(threadFromPath('brd_1', 'r9.c9', board)).toBeNull();
  expect(threadFromPath('brd_1', null, board)).toBeNull();
});
