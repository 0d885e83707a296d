/** A choice in local storage, as a zustand store. Without storage it lasts as long as the page. */
import { create, type StoreApi, type UseBoundStore } from 'zustand';

/** The first of `values` is the default. */
export function createStoredChoice<T extends string>(
  key: string,
  values: readonly [T, ...T[]],
): UseBoundStore<StoreApi<T>> {
  const useChoice = create<T>(() => values.find((value) => value === localStorage.getItem(key)) ?? values[0]);
  useChoice.subscribe((value) => {
    try {
      localStorage.setItem(key, value);
    } catch {
      // Storage may be full or forbidden.
    }
  });
  return useChoice;
}
