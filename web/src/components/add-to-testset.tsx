/** Opens the dialog that adds a conversation or a trace to a test set. `addToTestSet` can be called from anywhere. */
import { lazy, Suspense, type ReactNode } from 'react';
import { create } from 'zustand';

const AddToTestsetDialog = lazy(() => import('./add-to-testset-dialog'));

export type Source =
  | { kind: 'conversation'; id: string; upto: string }
  | { kind: 'trace'; trace_id: string; span_id?: string };

const useSource = create<Source | null>(() => null);

export const addToTestSet = (source: Source): void => useSource.setState(source, true);

const close = (): void => useSource.setState(null, true);

export function AddToTestset(): ReactNode {
  const source = useSource();
  return (
    <Suspense>{source && <AddToTestsetDialog key={JSON.stringify(source)} source={source} onClose={close} />}</Suspense>
  );
}
