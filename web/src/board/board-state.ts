/** The board of this view, for components. */
import { createContext, useContext, useSyncExternalStore } from 'react';
import type { Board } from '@/api/types';
import type { BoardStore } from './board-store';

export const BoardContext = createContext<BoardStore | null>(null);

export function useBoardStore(): BoardStore {
  const store = useContext(BoardContext);
  if (!store) throw new Error('No board around this component.');
  return store;
}

export function useBoard(): Board {
  const store = useBoardStore();
  return useSyncExternalStore(store.subscribe, () => store.board);
}
