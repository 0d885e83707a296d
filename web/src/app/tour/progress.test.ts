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

test('records nothing before the tour has started', () => {
  const tour = new Tour();

  tour.mark('talk', true);
  tour.show('away');

  expect(tour.state.getState()).toEqual({ on: false, look: 'open', done: [] });
  expect(stored.size).toBe(0);
});

test('stores completed steps in tour order for other tabs to read', () => {
  const tour = startedTour();
  const other = startedTour();

  tour.mark('worse', true);
  tour.mark('talk', true);
  tour.mark('talk', true);
  tour.show('folded');
  other.refresh();

  expect(other.state.getState()).toEqual({ on: true, look: 'folded', done: ['talk', 'worse'] });
});

test('unmarks a step and restarts the tour', () => {
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

test('ignores unknown steps and invalid values in stored progress', () => {
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

test('has a text for every step, in tour order', () => {
  expect(STEPS.map(({ id }) => id)).toEqual(STEP_IDS);
});

test('splits a text into plain, typed and pressed pieces', () => {
  expect(textPieces('Send `2 * [3]`, press [Add thread] twice.')).toEqual([
    { kind: 'plain', text: 'Send ' },
    { kind: 'typed', text: '2 * [3]' },
    { kind: 'plain', text: ', press ' },
    { kind: 'pressed', text: 'Add thread' },
    { kind: 'plain', text: ' twice.' },
  ]);
});
