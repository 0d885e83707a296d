/** A value that this browser remembers, shared by all components that use it. Without storage it lasts as long as the page. */
import { useSyncExternalStore } from 'react';

export interface Kept<T extends string> {
  get: () => T;
  set: (value: T) => void;
  subscribe: (listener: () => void) => () => void;
}

export function kept<T extends string>(key: string, values: readonly [T, ...T[]]): Kept<T> {
  const listeners = new Set<() => void>();
  let current = values.find((value) => value === localStorage.getItem(key)) ?? values[0];
  return {
    get: () => current,
    set: (value) => {
      current = value;
      try {
        localStorage.setItem(key, value);
      } catch {
        // Storage may be full or forbidden.
      }
      for (const listener of listeners) listener();
    },
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}

export const useKept = <T extends string>(value: Kept<T>): T => useSyncExternalStore(value.subscribe, value.get);
