import { expect, test } from 'vitest';
import type { Board } from '@/api/client';
import { targetCells, neighbourCell } from './composer';

const BOARD = { rows: [{ id: 'r1' }, { id: 'r2' }], columns: [{ id: 'c1' }, { id: 'c2' }] } as unknown as Board;
const at = (row: string, column: string) => ({ row, column });

test('sends to all cells, to the cells of a row, or to one cell', () => {
  expect(targetCells(BOARD, 'all', at('r1', 'c1'))).toEqual([
    at('r1', 'c1'),
    at('r1', 'c2'),
    at('r2', 'c1'),
    at('r2', 'c2'),
  ]);
  expect(targetCells(BOARD, 'row', at('r2', 'c1'))).toEqual([at('r2', 'c1'), at('r2', 'c2')]);
  expect(targetCells(BOARD, 'cell', at('r2', 'c1'))).toEqual([at('r2', 'c1')]);
  expect(targetCells(BOARD, 'cell', at('gone', 'c1'))).toEqual([]);
});

test('moves to the next or previous cell and wraps around', () => {
  expect(neighbourCell(BOARD, at('r1', 'c2'), 1)).toEqual(at('r2', 'c1'));
  expect(neighbourCell(BOARD, at('r2', 'c2'), 1)).toEqual(at('r1', 'c1'));
  expect(neighbourCell(BOARD, at('r1', 'c1'), -1)).toEqual(at('r2', 'c2'));
  expect(neighbourCell(BOARD, at('gone', 'c1'), -1)).toEqual(at('r2', 'c2'));
  expect(neighbourCell({ ...BOARD, rows: [] }, at('r1', 'c1'), 1)).toEqual(at('r1', 'c1'));
});
