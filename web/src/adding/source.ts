/** What somebody wants to keep as a case. Asked for from anywhere; one dialog answers. */
import { useSyncExternalStore } from 'react';

export type Source = { kind: 'conversation'; id: string; upto: string } | { kind: 'trace'; trace_id: string; span_id?: string };

let wanted: Source | null = null;
const listeners = new Set<() => void>();

function become(next: Source | null): void {
  wanted = next;
  for (const listener of listeners) listener();
}

/** Ask which test set it belongs to. */
export const addToTestSet = (source: Source): void => become(source);

export const addNothing = (): void => become(null);

const subscribe = (listener: () => void): (() => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

export const useWanted = (): Source | null => useSyncExternalStore(subscribe, () => wanted);
