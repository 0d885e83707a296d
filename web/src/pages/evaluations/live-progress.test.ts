import { expect, test } from 'vitest';

const { EventStreamParser } = await import('./live-progress');

test('events are read out of pieces that end anywhere', () => {
  const frames = new EventStreamParser();
  expect(frames.feed('id: 1\nevent: progress\nda')).toEqual([]);
  expect(frames.feed('ta: {"done": 1}\n\n: still here\n\nid: 2\ndata: {"a":\ndata: 1}\n')).toEqual(['{"done": 1}']);
  expect(frames.feed('\ndata: {}\n\n')).toEqual(['{"a":\n1}', '{}']);
});
