import { expect, test } from 'vitest';
import {
  type TestsetColumn,
  type RowData,
  type Edits,
  NO_EDITS,
  cellValue,
  applyPatch,
  countEdits,
  editsDelta,
  isEmpty,
  columnNameError,
  rebaseEdits,
  renameColumn,
  shownColumns,
  withCell,
  withCells,
  withColumn,
  withFill,
  withRow,
  withoutColumn,
  withoutRows,
  Drafts,
  entryData,
  gridEntries,
  isCellChanged,
} from './edits';
import { findRefusedCell } from './save-bar';

const column = (name: string, more: Partial<TestsetColumn> = {}): TestsetColumn => ({
  name,
  kind: 'text',
  present: 2,
  missing: 0,
  nulls: 0,
  ...more,
});
const COLUMNS = [column('q'), column('answer', { looks_like: 'chat' }), column('tmp')];
const ROW: RowData = { q: 'one', answer: 'a', tmp: 1 };
const NO_COLUMNS = { rename: {}, remove: [], fill: {} };
const apply = (...steps: ((edits: Edits) => Edits)[]): Edits => steps.reduce((edits, step) => step(edits), NO_EDITS);

test('sets, clears and restores a cell', () => {
  const set = withCell(NO_EDITS, 'row_1', 'q', 'two', ROW);
  expect([applyPatch('row_1', ROW, set), applyPatch('row_2', ROW, set)]).toEqual([
    { q: 'two', answer: 'a', tmp: 1 },
    ROW,
  ]);
  expect(editsDelta(set)).toEqual({
    add: [],
    patch: [{ id: 'row_1', set: { q: 'two' }, unset: [] }],
    remove: [],
    columns: NO_COLUMNS,
  });
  const unset = withCell(set, 'row_1', 'q', undefined, ROW);
  expect([editsDelta(unset).patch, applyPatch('row_1', ROW, unset)]).toEqual([
    [{ id: 'row_1', set: {}, unset: ['q'] }],
    { answer: 'a', tmp: 1 },
  ]);
  expect(isEmpty(withCell(unset, 'row_1', 'q', 'one', ROW))).toBe(true);
});

test('treats null as a value, and names such as __proto__ as columns', () => {
  expect(editsDelta(withCell(NO_EDITS, 'row_1', 'q', null, ROW)).patch).toEqual([
    { id: 'row_1', set: { q: null }, unset: [] },
  ]);
  expect([cellValue(ROW, 'constructor'), isEmpty(withCell(NO_EDITS, 'row_1', 'toString', undefined, ROW))]).toEqual([
    undefined,
    true,
  ]);
  const protoEdits = withCell(NO_EDITS, 'row_1', '__proto__', 1, ROW);
  expect(Object.keys(applyPatch('row_1', ROW, protoEdits))).toEqual(['q', 'answer', 'tmp', '__proto__']);
});

test('sets several cells at once', () => {
  const edits = withCells(
    NO_EDITS,
    ['row_1', 'row_2'].map((id) => ({ id, name: 'answer', value: [1], before: ROW })),
  );
  expect([countEdits(edits), editsDelta(edits).patch.map(({ id }) => id)]).toEqual([2, ['row_1', 'row_2']]);
});

test('adds new rows at their positions', () => {
  const edits = apply(
    (now) => withRow(now, 'end', { q: 'z' }, undefined),
    (now) => withRow(now, 'b', {}, 'row_1'),
    (now) => withRow(now, 'a', {}, 'row_1'),
    (now) => withRow(now, 'c', {}, 'b'),
    (now) => withCell(now, 'c', 'q', 'new', null),
  );
  expect(editsDelta(edits).add).toEqual([
    { data: { q: 'z' } },
    { data: {}, after: 'row_1' },
    { data: {}, after: 'row_1' },
    { data: { q: 'new' }, after: 'row_1' },
  ]);
  expect(edits.added.map(({ key }) => key)).toEqual(['end', 'a', 'b', 'c']);
});

test('drops the changes of removed rows, and moves up rows that were added after them', () => {
  const edits = apply(
    (now) => withCell(now, 'row_2', 'q', 'x', ROW),
    (now) => withRow(now, 'n', {}, 'row_2'),
    (now) => withRow(now, 'm', {}, 'row_1'),
    (now) => withoutRows(now, new Set(['row_2', 'm']), ['row_1', 'row_2', 'row_3']),
  );
  expect(editsDelta(edits)).toEqual({
    add: [{ data: {}, after: 'row_1' }],
    patch: [],
    remove: ['row_2'],
    columns: NO_COLUMNS,
  });
  expect(editsDelta(withoutRows(edits, new Set(['row_1']), ['row_1', 'row_2', 'row_3'])).add).toEqual([
    { data: {}, after: null },
  ]);
});

test('renames a column in every edit, and drops the rename when it is reverted', () => {
  const edits = apply(
    (now) => withCell(now, 'row_1', 'answer', 'b', ROW),
    (now) => withRow(now, 'n', { answer: 'c' }, undefined),
    (now) => renameColumn(now, 'answer', 'expected'),
    (now) => withCell(now, 'row_2', 'expected', undefined, ROW),
    (now) => renameColumn(now, 'expected', 'gold'),
  );
  expect(editsDelta(edits)).toEqual({
    add: [{ data: { gold: 'c' } }],
    patch: [
      { id: 'row_1', set: { gold: 'b' }, unset: [] },
      { id: 'row_2', set: {}, unset: ['gold'] },
    ],
    remove: [],
    columns: { rename: { answer: 'gold' }, remove: [], fill: {} },
  });
  expect(applyPatch('row_1', ROW, edits)).toEqual({ q: 'one', gold: 'b', tmp: 1 });
  expect(shownColumns(COLUMNS, edits)[1]).toEqual({
    name: 'gold',
    kind: 'text',
    looksLikeChat: true,
    isNew: false,
    originalName: 'answer',
  });
  expect(renameColumn(edits, 'gold', 'answer').rename.size).toBe(0);
});

test('removes a column by its original name', () => {
  const edits = apply(
    (now) => renameColumn(now, 'tmp', 'other'),
    (now) => withCell(now, 'row_1', 'other', 2, ROW),
    (now) => withoutColumn(now, 'other'),
  );
  expect(editsDelta(edits)).toEqual({
    add: [],
    patch: [],
    remove: [],
    columns: { rename: {}, remove: ['tmp'], fill: {} },
  });
  expect([applyPatch('row_1', ROW, edits), shownColumns(COLUMNS, edits).map(({ name }) => name)]).toEqual([
    { q: 'one', answer: 'a' },
    ['q', 'answer'],
  ]);
});

test('counts a new column once it has a value', () => {
  const empty = withColumn(NO_EDITS, 'lang');
  expect([countEdits(empty), isEmpty(empty), shownColumns([], empty).map(({ name, isNew }) => [name, isNew])]).toEqual([
    0,
    false,
    [['lang', true]],
  ]);
  const filled = withFill(withRow(empty, 'n', {}, undefined), 'lang', 'en');
  expect(editsDelta(filled)).toEqual({
    add: [{ data: { lang: 'en' } }],
    patch: [],
    remove: [],
    columns: { rename: {}, remove: [], fill: { lang: 'en' } },
  });
  expect(applyPatch('row_1', ROW, filled)).toEqual({ ...ROW, lang: 'en' });
  expect(isEmpty(withoutColumn(withFill(empty, 'lang', 'en'), 'lang'))).toBe(true);
});

test('rejects a column name that is empty or taken', () => {
  const edits = withoutColumn(renameColumn(NO_EDITS, 'q', 'question'), 'tmp');
  expect(
    ['', 'question', 'question2', 'q', 'answer', 'tmp'].map((name) => columnNameError(name, COLUMNS, edits)),
  ).toEqual([
    'Enter a column name.',
    'A column with this name already exists.',
    null,
    null,
    'A column with this name already exists.',
    'A column with this name is being removed. Save your changes first.',
  ]);
  expect(columnNameError('question', COLUMNS, edits, 'question')).toBe(null);
});

test('drops edits of rows that a newer revision has removed', () => {
  const edits = apply(
    (now) => withCell(now, 'row_1', 'q', 'x', ROW),
    (now) => withCell(now, 'row_2', 'q', 'x', ROW),
    (now) => withRow(now, 'n', {}, 'row_1'),
  );
  expect(editsDelta(rebaseEdits(edits, new Set(['row_1'])))).toEqual({
    add: [{ data: {} }],
    patch: [{ id: 'row_2', set: { q: 'x' }, unset: [] }],
    remove: [],
    columns: NO_COLUMNS,
  });
});

const row = (id: string, place: number) => ({ id, hash: '', place, data: { q: id } });
const ROWS = [row('row_1', 0), row('row_2', 1)];
const keys = (edits: typeof NO_EDITS, isPartial = false) => gridEntries(ROWS, edits, isPartial).map(({ key }) => key);

test('shows new rows at their positions, and hides removed ones', () => {
  const edits = withRow(withRow(withRow(NO_EDITS, 'end', {}, undefined), 'b', {}, 'row_1'), 'a', {}, 'row_1');
  expect(keys(edits)).toEqual(['row_1', 'a', 'b', 'row_2', 'end']);
  expect(keys(edits, true)).toEqual(['row_1', 'a', 'b', 'row_2']);
  expect(keys(withoutRows(edits, new Set(['row_1', 'b']), ['row_1', 'row_2']))).toEqual(['a', 'row_2', 'end']);
});

test('shows a row with its edits, and marks changed cells', () => {
  const edits = withCell(NO_EDITS, 'row_1', 'q', 'x', { q: 'row_1' });
  const [entry] = gridEntries(ROWS, edits, false);
  expect(
    entry && [entryData(entry, edits), isCellChanged(entry, 'q', edits), isCellChanged(entry, 'r', edits)],
  ).toEqual([{ q: 'x' }, true, false]);
});

test('undoes a draft step by step, and drops it when no edits are left', () => {
  const drafts = new Drafts();
  const one = withRow(NO_EDITS, 'a', {}, undefined);
  drafts.change('ts_1', 3, one);
  drafts.change('ts_1', 4, withRow(one, 'b', {}, undefined));
  expect(drafts.of('ts_1')).toMatchObject({ base: 3, history: [NO_EDITS, one] });
  drafts.undo('ts_1');
  expect(drafts.of('ts_1')).toEqual({ base: 3, edits: one, history: [NO_EDITS] });
  drafts.undo('ts_1');
  expect(drafts.of('ts_1')).toBe(undefined);
});

const edits = withRow(
  withCell(withCell(NO_EDITS, 'row_1', 's/c', {}, {}), 'row_2', 'q', 'x', {}),
  'new 1',
  { q: 1 },
  undefined,
);

test('finds a rejected cell by its JSON pointer', () => {
  expect(findRefusedCell('/delta/patch/s~1c/turns/0/expect', edits)).toEqual({
    column: 's/c',
    inside: 'turns/0/expect',
    position: { key: 'row_1', column: 's/c' },
  });
  expect(findRefusedCell('/delta/add/0/data/q/turns', edits)).toEqual({
    column: 'q',
    inside: 'turns',
    position: { key: 'new 1', column: 'q' },
  });
});

test('finds only the column if several rows match, and nothing for other pointers', () => {
  expect(findRefusedCell('/delta/patch/q', withCell(edits, 'row_3', 'q', 'y', {}))).toEqual({
    column: 'q',
    inside: '',
    position: null,
  });
  expect([
    findRefusedCell('/base', edits),
    findRefusedCell(undefined, edits),
    findRefusedCell('/delta/remove/0', edits),
  ]).toEqual([null, null, null]);
});
