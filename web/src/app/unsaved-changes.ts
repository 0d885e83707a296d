/** Ask before navigating away from unsaved changes. A view declares them while it is mounted. */
import { useEffect, useEffectEvent } from 'react';
import type { AroundNavHandler } from 'wouter';
import { askConfirmation } from '@/components/confirm-dialog';

interface Unsaved {
  /** Navigation within this path needs no confirmation. */
  path: string;
  /** The unsaved changes as text: "3 changes to Refunds". */
  describe: () => string;
}

let unsaved: Unsaved | null = null;

/** Passed to the router; sees every navigation. */
export const confirmNavigation: AroundNavHandler = (navigate, to, options) => {
  if (!unsaved || to.split('?', 1)[0] === unsaved.path) return navigate(to, options);
  void askConfirmation({
    title: 'Leave without saving?',
    text: `${unsaved.describe()} not saved. Drafts are kept until you close this tab.`,
    act: 'Leave',
  }).then((confirmed) => {
    if (confirmed) navigate(to, options);
  });
  return undefined;
};

/** Confirm leaving while `description` is not null, within the page and when the tab closes. */
export function useUnsavedChanges(path: string, description: string | null): void {
  const describe = useEffectEvent(() => description ?? '');
  const isUnsaved = description !== null;
  useEffect(() => {
    if (!isUnsaved) return undefined;
    const entry: Unsaved = { path, describe };
    unsaved = entry;
    const preventUnload = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener('beforeunload', preventUnload);
    return () => {
      if (unsaved === entry) unsaved = null;
      window.removeEventListener('beforeunload', preventUnload);
    };
  }, [path, isUnsaved]);
}
