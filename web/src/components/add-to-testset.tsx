/** The dialog of whoever adds something to a test set; fetched when it is wanted. */
import { lazy, Suspense, type ReactNode, useSyncExternalStore } from 'react';

const AddDialog = lazy(() => import('./add-to-testset-dialog'));

export function Adding(): ReactNode {
  const source = useWanted();
  return <Suspense>{source && <AddDialog key={JSON.stringify(source)} source={source} onClose={addNothing} />}</Suspense>;
}

/** What somebody wants to keep as a case. Asked for from anywhere; one dialog answers. */
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
