/**
 * Progress of the tour, in local storage and shared by all tabs. Views call `completeStep`; without a tour it does
 * nothing.
 */
import { createStore, useStore } from 'zustand';

export const STEP_IDS = ['talk', 'compare', 'trace', 'case', 'evaluate', 'worse', 'call'] as const;
export type StepId = (typeof STEP_IDS)[number];
const TOUR_VIEWS = ['open', 'folded', 'away'] as const;
export type TourView = (typeof TOUR_VIEWS)[number];

export interface TourState {
  /** Whether the server offers a tour. */
  on: boolean;
  look: TourView;
  done: readonly StepId[];
}

const KEY = 'palaver.tour';
const NO_TOUR: TourState = { on: false, look: 'open', done: [] };

/** Parse stored progress, ignoring anything invalid. */
export function parseProgress(stored: string | null): Omit<TourState, 'on'> {
  let value: unknown;
  try {
    value = JSON.parse(stored ?? '{}');
  } catch {
    value = {};
  }
  const { look, done: storedDone } = (value ?? {}) as { look?: unknown; done?: unknown };
  return {
    look: TOUR_VIEWS.find((known) => known === look) ?? NO_TOUR.look,
    done: STEP_IDS.filter((id) => Array.isArray(storedDone) && storedDone.includes(id)),
  };
}

export class Tour {
  readonly state = createStore<TourState>(() => NO_TOUR);
  #storage: Pick<Storage, 'getItem' | 'setItem'> | null = null;

  /** Load the stored progress, once the server offers a tour. */
  begin(storage: Pick<Storage, 'getItem' | 'setItem'>): void {
    if (this.state.getState().on) return;
    this.#storage = storage;
    this.refresh();
  }

  /** Reload after another tab made progress. */
  refresh(): void {
    if (!this.#storage) return;
    this.state.setState({ on: true, ...parseProgress(this.#storage.getItem(KEY)) });
  }

  mark(id: StepId, isDone: boolean): void {
    const { done: before } = this.state.getState();
    if (before.includes(id) !== isDone)
      this.#save({ done: STEP_IDS.filter((step) => (step === id ? isDone : before.includes(step))) });
  }

  show(look: TourView): void {
    this.#save({ look });
  }

  restart(): void {
    this.#save({ look: 'open', done: [] });
  }

  #save(change: Partial<TourState>): void {
    if (!this.#storage) return;
    this.state.setState(change);
    const { look, done: all } = this.state.getState();
    try {
      this.#storage.setItem(KEY, JSON.stringify({ look, done: all }));
    } catch {
      // Storage may be full or forbidden.
    }
  }
}

export const tour = new Tour();

export function startTour(): void {
  tour.begin(localStorage);
  window.addEventListener('storage', ({ key }) => key === KEY && tour.refresh());
}

export const completeStep = (id: StepId): void => tour.mark(id, true);

export const useTour = (): TourState => useStore(tour.state);
