import { expect, test, vi } from 'vitest';
import { Refresher } from './refresher';

function manualWork(): { work: () => Promise<void>; finishers: ((error?: Error) => void)[] } {
  const finishers: ((error?: Error) => void)[] = [];
  return {
    finishers,
    work: () => new Promise((resolve, reject) => void finishers.push((error) => (error ? reject(error) : resolve()))),
  };
}
const settle = () => new Promise((resolve) => setTimeout(resolve, 0));

test('what is asked for many times meanwhile is done once more', async () => {
  const { work, finishers } = manualWork();
  const repeated = new Refresher(work);
  const all = [repeated.request(), repeated.request(), repeated.request()];
  expect([finishers.length, repeated.isBusy, repeated.isStale]).toEqual([1, true, true]);
  finishers[0]?.();
  await settle();
  expect([finishers.length, repeated.isStale]).toEqual([2, false]);
  finishers[1]?.();
  await Promise.all(all);
  await settle();
  expect([finishers.length, repeated.isBusy]).toEqual([2, false]);
});

test('only the last failure counts', async () => {
  const { work, finishers } = manualWork();
  const repeated = new Refresher(work);
  const pending = repeated.request();
  void repeated.request();
  finishers[0]?.(new Error('first'));
  await settle();
  finishers[1]?.();
  await pending;
  const failing = repeated.request();
  finishers[2]?.(new Error('last'));
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
