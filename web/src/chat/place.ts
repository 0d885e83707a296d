/** Where a cell stands, and what it is given. */
import type { Thread } from '@/api/types';

/** What a cell is for; asked anew at every turn. */
export interface Place {
  workflow: string;
  variant: string;
  parameters: Record<string, unknown>;
  inputs: Record<string, unknown>;
}

export interface CellOptions {
  thread: string | null;
  /** Where the branch that is shown ends; null: at the thread's head. */
  at?: string | null;
  place: () => Place;
  /** Make the thread of this cell. */
  make: () => Promise<Thread>;
  forked: (thread: Thread) => void;
}
