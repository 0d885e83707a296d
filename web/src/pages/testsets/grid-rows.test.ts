import { expect, test } from 'vitest';
import { Drafts, NO_EDITS, withCell, withRow, withoutRows } from './edits';
import { entryData, gridEntries, isCellChanged } from './grid-rows';

const row = (id: string, place: number) => ({ id, hash: '', place, data: { q: id } });
const ROWS = [row('row_1', 0), row('row_2', 1)];
const keys = (edits: typeof NO_EDITS, isSome = false) => gridEntries(ROWS, edits, isSome).map(({ key }) => key);

test('new rows stand in their places, removed ones are gone', () => {
  const edits = withRow(withRow(withRow(NO_EDITS, 'end', {}, undefined), 'b', {}, 'row_1'), 'a', {}, 'row_1');
  expect(keys(edits)).toEqual(['row_1', 'a', 'b', 'row_2', 'end']);
  expect(keys(edits, true)).toEqual(['row_1', 'a', 'b', 'row_2']);
  expect(keys(withoutRows(edits, new Set(['row_1', 'b']), ['row_1', 'row_2']))).toEqual(['a', 'row_2', 'end']);
});

test('a row shows what it would be, and which cells are changed', () => {
  const edits = withCell(NO_EDITS, 'row_1', 'q', 'x', { q: 'row_1' });
  const [entry] = gridEntries(ROWS, edits, false);
  expect(
    entry && [entryData(entry, edits), isCellChanged(entry, 'q', edits), isCellChanged(entry, 'r', edits)],
  ).toEqual([{ q: 'x' }, true, false]);
});

test('a draft goes back step by step, and is none when nothing is left', () => {
  const drafts = new Drafts();
  const one = withRow(NO_EDITS, 'a', {}, undefined);
  drafts.change('ts_1', 3, one);
  drafts.change('ts_1', 4, withRow(one, 'b', {}, undefined));
  expect(drafts.of('ts_1')).toMatchObject({ base: 3, past: [NO_EDITS, one] });
  drafts.undo('ts_1');
  expect(drafts.of('ts_1')).toEqual({ base: 3, edits: one, past: [NO_EDITS] });
  drafts.undo('ts_1');
  expect(drafts.of('ts_1')).toBe(undefined);
});
