import { expect, test } from 'vitest';
import { NO_EDITS, withCell, withRow } from './edits';
import { findRefusedCell } from './save-bar';

const edits = withRow(
  withCell(withCell(NO_EDITS, 'row_1', 's/c', {}, {}), 'row_2', 'q', 'x', {}),
  'new 1',
  { q: 1 },
  undefined,
);

test('the cell that was refused is found by its pointer', () => {
  expect(findRefusedCell('/delta/patch/s~1c/turns/0/expect', edits)).toEqual({
    column: 's/c',
    inside: 'turns/0/expect',
    place: { key: 'row_1', column: 's/c' },
  });
  expect(findRefusedCell('/delta/add/0/data/q/turns', edits)).toEqual({
    column: 'q',
    inside: 'turns',
    place: { key: 'new 1', column: 'q' },
  });
});

test('where several rows could be meant, only the column is told', () => {
  expect(findRefusedCell('/delta/patch/q', withCell(edits, 'row_3', 'q', 'y', {}))).toEqual({
    column: 'q',
    inside: '',
    place: null,
  });
  expect([
    findRefusedCell('/base', edits),
    findRefusedCell(undefined, edits),
    findRefusedCell('/delta/remove/0', edits),
  ]).toEqual([null, null, null]);
});
