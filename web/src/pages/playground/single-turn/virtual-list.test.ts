import { expect, it } from 'vitest';
import { visibleRange } from './virtual-list';

const heights = [100, 50, 200, 50, 100];

it('the rows that touch what one sees are drawn, the others leave room', () => {
  expect(visibleRange(heights, 120, 360)).toEqual({ from: 1, to: 4, above: 100, below: 100 });
  expect(visibleRange(heights, 0, 100)).toEqual({ from: 0, to: 1, above: 0, below: 400 });
  expect(visibleRange(heights, -500, 1000)).toEqual({ from: 0, to: 5, above: 0, below: 0 });
});

it('past the end nothing is drawn, and the room is the same', () => {
  expect(visibleRange(heights, 500, 900)).toEqual({ from: 5, to: 5, above: 500, below: 0 });
  expect(visibleRange([], 0, 800)).toEqual({ from: 0, to: 0, above: 0, below: 0 });
});
