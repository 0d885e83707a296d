import { expect, test } from 'vitest';
import type { Board } from '@/api/types';
import { heardBy, neighbour } from './composer';

const BOARD = { rows: [{ id: 'r1' }, { id: 'r2' }], columns: [{ id: 'c1' }, { id: 'c2' }] } as unknown as Board;
const at = (row: string, column: string) => ({ row, column });

test('what is sent is heard by all, by a row, or by one', () => {
  expect(heardBy(BOARD, 'all', at('r1', 'c1'))).toEqual([
    at('r1', 'c1'),
    at('r1', 'c2'),
    at('r2', 'c1'),
    at('r2', 'c2'),
  ]);
  expect(heardBy(BOARD, 'row', at('r2', 'c1'))).toEqual([at('r2', 'c1'), at('r2', 'c2')]);
  expect(heardBy(BOARD, 'cell', at('r2', 'c1'))).toEqual([at('r2', 'c1')]);
  expect(heardBy(BOARD, 'cell', at('gone', 'c1'))).toEqual([]);
});

test('one goes round the board from cell to cell', () => {
  expect(neighbour(BOARD, at('r1', 'c2'), 1)).toEqual(at('r2', 'c1'));
  expect(neighbour(BOARD, at('r2', 'c2'), 1)).toEqual(at('r1', 'c1'));
  expect(neighbour(BOARD, at('r1', 'c1'), -1)).toEqual(at('r2', 'c2'));
  expect(neighbour(BOARD, at('gone', 'c1'), -1)).toEqual(at('r2', 'c2'));
  expect(neighbour({ ...BOARD, rows: [] }, at('r1', 'c1'), 1)).toEqual(at('r1', 'c1'));
});
