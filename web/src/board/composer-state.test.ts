import { describe, expect, test } from 'vitest';
import type { Board } from '@/api/types';
import { heardBy, neighbour, sends } from './composer-state';

const BOARD = { rows: [{ id: 'r1' }, { id: 'r2' }], columns: [{ id: 'c1' }, { id: 'c2' }] } as unknown as Board;
const at = (row: string, column: string) => ({ row, column });

test('what is sent is heard by all, by a row, or by one', () => {
  expect(heardBy(BOARD, 'all', at('r1', 'c1'))).toEqual([at('r1', 'c1'), at('r1', 'c2'), at('r2', 'c1'), at('r2', 'c2')]);
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

describe('a key', () => {
  const pressed = (more: object = {}) => ({ key: 'Enter', shiftKey: false, ctrlKey: false, metaKey: false, isComposing: false, keyCode: 13, ...more });

  test('sends when it is Enter; with Shift it is a new line', () => {
    expect(sends(pressed(), 'enter')).toBe(true);
    expect(sends(pressed({ shiftKey: true }), 'enter')).toBe(false);
    expect(sends(pressed({ key: 'a' }), 'enter')).toBe(false);
    expect(sends(pressed({ ctrlKey: true }), 'enter')).toBe(true);
  });

  test('sends only with Control or Command for who wants it so', () => {
    expect(sends(pressed(), 'ctrl-enter')).toBe(false);
    expect(sends(pressed({ ctrlKey: true }), 'ctrl-enter')).toBe(true);
    expect(sends(pressed({ metaKey: true }), 'ctrl-enter')).toBe(true);
  });

  test('never sends while an input method composes, in any browser', () => {
    for (const how of ['enter', 'ctrl-enter'] as const) {
      expect(sends(pressed({ isComposing: true, ctrlKey: true }), how)).toBe(false);
      expect(sends(pressed({ keyCode: 229, ctrlKey: true }), how)).toBe(false); // Safari says so after the composition has ended.
    }
  });
});
