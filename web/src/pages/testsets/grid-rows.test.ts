import { expect, test } from 'vitest';
import { Drafts, NONE, withCell, withRow, withoutRows } from './edits';
import { dataOf, entriesOf, isChanged } from './grid-rows';

const row = (id: string, place: number) => ({ id, hash: '', place, data: { q: id } });
const ROWS = [row('row_1', 0), row('row_2', 1)];
const keys = (edits: typeof NONE, isSome = false) => entriesOf(ROWS, edits, isSome).map(({ key }) => key);

test('new rows stand in their places, removed ones are gone', () => {
  const edits = withRow(withRow(withRow(NONE, 'end', {}, undefined), 'b', {}, 'row_1'), 'a', {}, 'row_1');
  expect(keys(edits)).toEqual(['row_1', 'a', 'b', 'row_2', 'end']);
  expect(keys(edits, true)).toEqual(['row_1', 'a', 'b', 'row_2']);
  expect(keys(withoutRows(edits, new Set(['row_1', 'b']), ['row_1', 'row_2']))).toEqual(['a', 'row_2', 'end']);
});

test('a row shows what it would be, and which cells are changed', () => {
  const edits = withCell(NONE, 'row_1', 'q', 'x', { q: 'row_1' });
  const [entry] = entriesOf(ROWS, edits, false);
  expect(entry && [dataOf(entry, edits), isChanged(entry, 'q', edits), isChanged(entry, 'r', edits)]).toEqual([
    { q: 'x' },
    true,
    false,
  ]);
});

test('a draft goes back step by step, and is none when nothing is left', () => {
  const drafts = new Drafts();
  const one = withRow(NONE, 'a', {}, undefined);
  drafts.change('ts_1', 3, one);
  drafts.change('ts_1', 4, withRow(one, 'b', {}, undefined));
  expect(drafts.of('ts_1')).toMatchObject({ base: 3, past: [NONE, one] });
  drafts.undo('ts_1');
  expect(drafts.of('ts_1')).toEqual({ base: 3, edits: one, past: [NONE] });
  drafts.undo('ts_1');
  expect(drafts.of('ts_1')).toBe(undefined);
});
