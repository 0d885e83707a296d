import { expect, test, vi } from 'vitest';
import { Refresher } from './refresher';

function held(): { work: () => Promise<void>; ends: ((error?: Error) => void)[] } {
  const ends: ((error?: Error) => void)[] = [];
  return {
    ends,
    work: () => new Promise((resolve, reject) => void ends.push((error) => (error ? reject(error) : resolve()))),
  };
}
const settle = () => new Promise((resolve) => setTimeout(resolve, 0));

test('what is asked for many times meanwhile is done once more', async () => {
  const { work, ends } = held();
  const repeated = new Refresher(work);
  const all = [repeated.request(), repeated.request(), repeated.request()];
  expect([ends.length, repeated.isBusy, repeated.isStale]).toEqual([1, true, true]);
  ends[0]?.();
  await settle();
  expect([ends.length, repeated.isStale]).toEqual([2, false]);
  ends[1]?.();
  await Promise.all(all);
  await settle();
  expect([ends.length, repeated.isBusy]).toEqual([2, false]);
});

test('only the last failure counts', async () => {
  const { work, ends } = held();
  const repeated = new Refresher(work);
  const asked = repeated.request();
  void repeated.request();
  ends[0]?.(new Error('first'));
  await settle();
  ends[1]?.();
  await asked;
  const failing = repeated.request();
  ends[2]?.(new Error('last'));
  await expect(failing).rejects.toThrow('last');
});

test('what is asked for in the very last moment is done, too', async () => {
  const work = vi.fn(async () => {});
  const repeated = new Refresher(work);
  const first = repeated.request();
  void first.then(() => repeated.request());
  await settle();
  expect(work).toHaveBeenCalledTimes(2);
});
