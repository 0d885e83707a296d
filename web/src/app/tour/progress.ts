/**
 * What of the tour was done in this browser. Where something is really done, `done` is told so; where the server gives no
 * tour, nothing is noted. The store is kept in local storage and shared by all tabs; it knows no React but for its hook.
 */
import { useSyncExternalStore } from 'react';
import { Listeners } from '@/lib/listeners';

export const IDS = ['talk', 'compare', 'trace', 'case', 'evaluate', 'worse', 'call'] as const;
export type StepId = (typeof IDS)[number];
const LOOKS = ['open', 'folded', 'away'] as const;
export type Look = (typeof LOOKS)[number];

export interface Toured {
  /** Does this server give a tour? */
  on: boolean;
  look: Look;
  done: readonly StepId[];
}

const KEY = 'palaver.tour';
const NOTHING: Toured = { on: false, look: 'open', done: [] };

/** What was kept, whoever wrote it there. */
export function read(kept: string | null): Omit<Toured, 'on'> {
  let given: unknown;
  try {
    given = JSON.parse(kept ?? '{}');
  } catch {
    given = {};
  }
  const { look, done: listed } = (given ?? {}) as { look?: unknown; done?: unknown };
  return {
    look: LOOKS.find((one) => one === look) ?? NOTHING.look,
    done: IDS.filter((id) => Array.isArray(listed) && listed.includes(id)),
  };
}

export class Tour {
  #now = NOTHING;
  #storage: Pick<Storage, 'getItem' | 'setItem'> | null = null;
  #listeners = new Listeners();

  subscribe = this.#listeners.subscribe;
  now = (): Toured => this.#now;

  /** The server gives a tour: go on where this browser was. */
  begin(storage: Pick<Storage, 'getItem' | 'setItem'>): void {
    if (this.#now.on) return;
    this.#storage = storage;
    this.refresh();
  }

  /** Another tab may have gone further. */
  refresh(): void {
    if (!this.#storage) return;
    this.#now = { on: true, ...read(this.#storage.getItem(KEY)) };
    this.#listeners.tell();
  }

  mark(id: StepId, is: boolean): void {
    if (this.#now.done.includes(id) !== is) this.#become({ done: IDS.filter((one) => (one === id ? is : this.#now.done.includes(one))) });
  }

  show(look: Look): void {
    this.#become({ look });
  }

  again(): void {
    this.#become({ look: 'open', done: [] });
  }

  #become(change: Partial<Toured>): void {
    if (!this.#storage) return;
    this.#now = { ...this.#now, ...change };
    const { look, done: all } = this.#now;
    try {
      this.#storage.setItem(KEY, JSON.stringify({ look, done: all }));
    } catch {
      // Storage may be full or forbidden.
    }
    this.#listeners.tell();
  }
}

export const tour = new Tour();

export function beginTour(): void {
  tour.begin(localStorage);
  window.addEventListener('storage', ({ key }) => key === KEY && tour.refresh());
}

/** A step was done, for real. */
export const done = (id: StepId): void => tour.mark(id, true);

export const useTour = (): Toured => useSyncExternalStore(tour.subscribe, tour.now);
