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

test('refreshes once more for any number of requests during a refresh', async () => {
  const { work, finishers } = manualWork();
  const refresher = new Refresher(work);
  const requests = [refresher.request(), refresher.request(), refresher.request()];
  expect([finishers.length, refresher.isBusy, refresher.isStale]).toEqual([1, true, true]);
  finishers[0]?.();
  await settle();
  expect([finishers.length, refresher.isStale]).toEqual([2, false]);
  finishers[1]?.();
  await Promise.all(requests);
  await settle();
  expect([finishers.length, refresher.isBusy]).toEqual([2, false]);
});

test('rejects only if the last attempt fails', async () => {
  const { work, finishers } = manualWork();
  const refresher = new Refresher(work);
  const pending = refresher.request();
  void refresher.request();
  finishers[0]?.(new Error('first'));
  await settle();
  finishers[1]?.();
  await pending;
  const failing = refresher.request();
  finishers[2]?.(new Error('last'));
  await expect(failing).rejects.toThrow('last');
});

test('refreshes again for a request made as the last refresh ends', async () => {
  const work = vi.fn(async () => {});
  const refresher = new Refresher(work);
  const first = refresher.request();
  void first.then(() => refresher.request());
  await settle();
  expect(work).toHaveBeenCalledTimes(2);
});
