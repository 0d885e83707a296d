import { beforeEach, expect, test } from 'vitest';
import { parseProgress, Tour, STEP_IDS } from './progress';
import { STEPS, textPieces } from './steps';

const stored = new Map<string, string>();
const storage = {
  getItem: (key: string) => stored.get(key) ?? null,
  setItem: (key: string, value: string) => void stored.set(key, value),
};

function startedTour(): Tour {
  const tour = new Tour();
  tour.begin(storage);
  return tour;
}

beforeEach(() => stored.clear());

test('where there is no tour nothing is noted', () => {
  const tour = new Tour();

  tour.mark('talk', true);
  tour.show('away');

  expect(tour.state.getState()).toEqual({ on: false, look: 'open', done: [] });
  expect(stored.size).toBe(0);
});

test('what is done is kept in the order of the tour, and another tab reads it', () => {
  const tour = startedTour();
  const other = startedTour();

  tour.mark('worse', true);
  tour.mark('talk', true);
  tour.mark('talk', true);
  tour.show('folded');
  other.refresh();

  expect(other.state.getState()).toEqual({ on: true, look: 'folded', done: ['talk', 'worse'] });
});

test('a step can be taken back, and all of it can begin again', () => {
  const tour = startedTour();
  let updates = 0;
  tour.state.subscribe(() => (updates += 1));

  tour.mark('talk', true);
  tour.mark('case', true);
  tour.mark('talk', false);
  expect(tour.state.getState().done).toEqual(['case']);
  tour.show('away');
  tour.restart();

  expect(tour.state.getState()).toEqual({ on: true, look: 'open', done: [] });
  expect(updates).toBe(5);
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

test('every step that can be done has its text, in the order of the tour', () => {
  expect(STEPS.map(({ id }) => id)).toEqual(STEP_IDS);
});

test('a text tells what is pressed and what is typed', () => {
  expect(textPieces('Send `2 * [3]`, press [Add thread] twice.')).toEqual([
    { kind: 'plain', text: 'Send ' },
    { kind: 'typed', text: '2 * [3]' },
    { kind: 'plain', text: ', press ' },
    { kind: 'pressed', text: 'Add thread' },
    { kind: 'plain', text: ' twice.' },
  ]);
});
