import { expect, it } from 'vitest';
import { counted, money } from './words';

it('tells what it cost', () => {
  expect([0, 0.000_000_1, 0.000_012_3, 0.0012, 0.05, 3.2].map(money)).toEqual(['$0', '<$0.000001', '$0.000012', '$0.0012', '$0.05', '$3.20']);
});

it('counts', () => {
  expect([counted(1, 'trace'), counted(1200, 'trace')]).toEqual(['1 trace', '1,200 traces']);
});
