/** The dialog of whoever adds something to a test set; fetched when it is wanted. */
import { lazy, Suspense, type ReactNode } from 'react';
import { addNothing, useWanted } from './source';

const AddDialog = lazy(() => import('./add-dialog'));

export function Adding(): ReactNode {
  const source = useWanted();
  return <Suspense>{source && <AddDialog key={JSON.stringify(source)} source={source} onClose={addNothing} />}</Suspense>;
}
