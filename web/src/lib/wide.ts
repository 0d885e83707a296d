/** Is there room for things side by side? */
import { useSyncExternalStore } from 'react';

const wide = window.matchMedia('(min-width: 1024px)');

const subscribe = (listener: () => void): (() => void) => {
  wide.addEventListener('change', listener);
  return () => wide.removeEventListener('change', listener);
};

export const useIsWide = (): boolean => useSyncExternalStore(subscribe, () => wide.matches);
