import { expect, it } from 'vitest';
import type { Run } from '@/api/types';
import { type RunsByCell, boardProgress, unfinishedRuns } from './runs';

const run = (status: Run['status']): Run => ({ status }) as Run;
const runs: RunsByCell = {
  a: run('finished'),
  b: run('failed'),
  c: run('running'),
  d: run('queued'),
  e: run('cancelled'),
  gone: null,
};

it('every cell of the board is counted once, by the run it holds', () => {
  const cells = ['a', 'b', 'c', 'd', 'e', 'gone', 'unheard'].map((id, place) => ({
    row: `r${place}`,
    column: 'c1',
    run: id,
  }));
  const rows = [...cells.map(({ row }) => ({ id: row, name: '' })), { id: 'new', name: '' }];
  const strays = [
    { row: 'deleted', column: 'c1', run: 'a' },
    { row: 'r0', column: 'deleted', run: 'a' },
  ];

  expect(
    boardProgress(
      { rows, columns: [{ id: 'c1', workflow: 'w', variant: 'default' }], cells: [...cells, ...strays] },
      runs,
    ),
  ).toEqual({
    cells: 8,
    good: 1,
    failed: 2,
    running: 1,
    queued: 2,
    empty: 2,
  });
});

it('what has ended or is gone is settled', () => {
  expect(unfinishedRuns(['a', 'b', 'c', 'd', 'e', 'gone', 'unheard'], runs)).toEqual(['c', 'd', 'unheard']);
});
