/** What is not saved yet, by set, as long as the tab is open: whoever looks at something else finds it again. */
import { useSyncExternalStore } from 'react';
import { Listeners } from '@/lib/listeners';
import { type Edits, NONE, isNothing } from './edits';

export interface Draft {
  /** The revision that it changes. */
  base: number;
  edits: Edits;
  /** As it was before each step, the last at the end. */
  past: readonly Edits[];
}

const MOST_STEPS = 100;

export class Drafts {
  #all = new Map<string, Draft>();
  #listeners = new Listeners();

  of = (id: string): Draft | undefined => this.#all.get(id);

  /** One step further. */
  change(id: string, base: number, edits: Edits): void {
    const { edits: before, past, base: begun } = this.#all.get(id) ?? { base, edits: NONE, past: [] };
    this.#become(id, { base: begun, edits, past: [...past, before].slice(-MOST_STEPS) });
  }

  undo(id: string): void {
    const draft = this.#all.get(id);
    if (draft) this.#become(id, { ...draft, edits: draft.past.at(-1) ?? NONE, past: draft.past.slice(0, -1) });
  }

  /** The same on another revision: what was before cannot be gone back to. */
  rebase(id: string, base: number, edits: Edits): void {
    this.#become(id, { base, edits, past: [] });
  }

  discard(id: string): void {
    this.#become(id, undefined);
  }

  subscribe = this.#listeners.subscribe;

  #become(id: string, draft: Draft | undefined): void {
    if (draft && !isNothing(draft.edits)) this.#all.set(id, draft);
    else this.#all.delete(id);
    this.#listeners.tell();
  }
}

export const drafts = new Drafts();

export const useDraft = (id: string): Draft | undefined => useSyncExternalStore(drafts.subscribe, () => drafts.of(id));
