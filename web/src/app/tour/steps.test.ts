import { expect, test } from 'vitest';
import { STEP_IDS } from './progress';
import { STEPS, textPieces } from './steps';

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
