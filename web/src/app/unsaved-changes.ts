/** Who goes elsewhere while something is not saved is asked first; a view says so while it is shown. */
import { useEffect, useEffectEvent } from 'react';
import type { AroundNavHandler } from 'wouter';
import { askConfirmation } from '@/components/confirm-dialog';

interface Unsaved {
  /** Of this path nothing is left behind. */
  path: string;
  /** What would wait: "3 changes of Refunds". */
  what: () => string;
}

let unsaved: Unsaved | null = null;

/** For the router: every way to another view comes by here. */
export const confirmNavigation: AroundNavHandler = (navigate, to, options) => {
  if (!unsaved || to.split('?', 1)[0] === unsaved.path) return navigate(to, options);
  void askConfirmation({
    title: 'Leave without saving?',
    text: `${unsaved.what()} not saved. They wait here as long as this tab is open.`,
    act: 'Leave',
  }).then((yes) => {
    if (yes) navigate(to, options);
  });
  return undefined;
};

/** While `what` is there, leaving is asked about: inside of the page, and when the tab is closed. */
export function useUnsavedChanges(path: string, what: string | null): void {
  const told = useEffectEvent(() => what ?? '');
  const isUnsaved = what !== null;
  useEffect(() => {
    if (!isUnsaved) return undefined;
    const mine: Unsaved = { path, what: told };
    unsaved = mine;
    const close = (event: BeforeUnloadEvent) => event.preventDefault();
    window.addEventListener('beforeunload', close);
    return () => {
      if (unsaved === mine) unsaved = null;
      window.removeEventListener('beforeunload', close);
    };
  }, [path, isUnsaved]);
}
