import { describe, expect, it } from 'vitest';
import type { Run } from '@/api/client';
import { shapeOf } from '@/components/forms/json-schema';
import { addRows, duplicateRow, mergeSchemas } from './rows';
import { type RunsById, boardProgress, unfinishedRuns } from './runs';
import { visibleRange } from './virtual-list';

describe('rows', () => {
  const rows = [
    { id: 'r1', name: '', inputs: { text: 'a' } },
    { id: 'r3', name: '', inputs: {} },
  ];

  it('are added with unused ids, up to 1,000 rows', () => {
    expect(addRows(rows, [{ text: 'b' }, {}])).toEqual([
      ...rows,
      { id: 'r4', name: '', inputs: { text: 'b' } },
      { id: 'r5', name: '', inputs: {} },
    ]);
    expect(
      addRows(
        rows,
        Array.from({ length: 2000 }, () => ({})),
      ).length,
    ).toBe(1000);
  });

  it('are duplicated below the original', () => {
    expect(duplicateRow(rows, 'r1').map(({ id, inputs }) => [id, inputs])).toEqual([
      ['r1', { text: 'a' }],
      ['r4', { text: 'a' }],
      ['r3', {}],
    ]);
  });
});

describe('the merged input schema', () => {
  it('of one workflow is its own schema', () => {
    const schema = { type: 'object', properties: {} };

    expect(mergeSchemas([schema])).toBe(schema);
  });

  it('has the properties of all workflows, preferring earlier ones, each with its own definitions', () => {
    const one = {
      properties: { a: { $ref: '#/$defs/X' } },
      required: ['a'],
      $defs: { X: { enum: [1] } },
      additionalProperties: false,
    };
    const other = {
      properties: { a: { type: 'string' }, b: { $ref: '#/$defs/X' } },
      required: ['b'],
      $defs: { X: { enum: [2] } },
      additionalProperties: true,
    };
    const merged = mergeSchemas([one, other]);
    const properties = merged.properties as Record<string, unknown>;

    expect([merged.required, merged.additionalProperties]).toEqual([['a', 'b'], true]);
    expect([shapeOf(properties.a, merged), shapeOf(properties.b, merged)]).toMatchObject([
      { kind: 'choice', options: [1] },
      { kind: 'choice', options: [2] },
    ]);
  });
});

const run = (status: Run['status']): Run => ({ status }) as Run;
const runs: RunsById = {
  a: run('finished'),
  b: run('failed'),
  c: run('running'),
  d: run('queued'),
  e: run('cancelled'),
  gone: null,
};

it('counts every cell of the board once, by the status of its run', () => {
  const cells = ['a', 'b', 'c', 'd', 'e', 'gone', 'unheard'].map((id, index) => ({
    row: `r${index}`,
    column: 'c1',
    run: id,
  }));
  const rows = [...cells.map(({ row }) => ({ id: row, name: '' })), { id: 'new', name: '' }];
  const removedCells = [
    { row: 'deleted', column: 'c1', run: 'a' },
    { row: 'r0', column: 'deleted', run: 'a' },
  ];

  expect(
    boardProgress(
      { rows, columns: [{ id: 'c1', workflow: 'w', variant: 'default' }], cells: [...cells, ...removedCells] },
      runs,
    ),
  ).toEqual({
    cells: 8,
    succeeded: 1,
    failed: 2,
    running: 1,
    queued: 2,
    empty: 2,
  });
});

it('lists running, queued and unknown runs as unfinished, but not deleted ones', () => {
  expect(unfinishedRuns(['a', 'b', 'c', 'd', 'e', 'gone', 'unheard'], runs)).toEqual(['c', 'd', 'unheard']);
});

const heights = [100, 50, 200, 50, 100];

it('renders the rows that overlap the visible area, and reserves space for the others', () => {
  expect(visibleRange(heights, 120, 360)).toEqual({ from: 1, to: 4, above: 100, below: 100 });
  expect(visibleRange(heights, 0, 100)).toEqual({ from: 0, to: 1, above: 0, below: 400 });
  expect(visibleRange(heights, -500, 1000)).toEqual({ from: 0, to: 5, above: 0, below: 0 });
});

it('renders nothing past the end, and keeps the total height', () => {
  expect(visibleRange(heights, 500, 900)).toEqual({ from: 5, to: 5, above: 500, below: 0 });
  expect(visibleRange([], 0, 800)).toEqual({ from: 0, to: 0, above: 0, below: 0 });
});
