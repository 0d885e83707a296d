import { beforeEach, expect, test } from 'vitest';
import { parseProgress, Tour } from './progress';

const kept = new Map<string, string>();
const storage = {
  getItem: (key: string) => kept.get(key) ?? null,
  setItem: (key: string, value: string) => void kept.set(key, value),
};

function begun(): Tour {
  const tour = new Tour();
  tour.begin(storage);
  return tour;
}

beforeEach(() => kept.clear());

test('where there is no tour nothing is noted', () => {
  const tour = new Tour();

  tour.mark('talk', true);
  tour.show('away');

  expect(tour.state.getState()).toEqual({ on: false, look: 'open', done: [] });
  expect(kept.size).toBe(0);
});

test('what is done is kept in the order of the tour, and another tab reads it', () => {
  const tour = begun();
  const other = begun();

  tour.mark('worse', true);
  tour.mark('talk', true);
  tour.mark('talk', true);
  tour.show('folded');
  other.refresh();

  expect(other.state.getState()).toEqual({ on: true, look: 'folded', done: ['talk', 'worse'] });
});

test('a step can be taken back, and all of it can begin again', () => {
  const tour = begun();
  let heard = 0;
  tour.state.subscribe(() => (heard += 1));

  tour.mark('talk', true);
  tour.mark('case', true);
  tour.mark('talk', false);
  expect(tour.state.getState().done).toEqual(['case']);
  tour.show('away');
  tour.again();

  expect(tour.state.getState()).toEqual({ on: true, look: 'open', done: [] });
  expect(heard).toBe(5);
});

test('of what is kept only what is known counts', () => {
  expect(
    [null, 'x', 'null', '[]', '{"look":7,"done":"talk"}', '{"look":"away","done":["call","dance","talk",null]}'].map(
      parseProgress,
    ),
  ).toEqual([
    { look: 'open', done: [] },
    { look: 'open', done: [] },
    { look: 'open', done: [] },
    { look: 'open', done: [] },
    { look: 'open', done: [] },
    { look: 'away', done: ['talk', 'call'] },
  ]);
});
