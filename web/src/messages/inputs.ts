/** The inputs that go with the next question, where a message is shown beside them: what it proposes can be put into them. */
import { createContext } from 'react';

export type Values = Readonly<Record<string, unknown>>;

export interface Inputs {
  subscribe: (listener: () => void) => () => void;
  /** What is set; the same object until it changes. */
  read: () => Values;
  /** What holds where nothing is set. */
  usual: () => Values;
  change: (update: (values: Values) => Values) => void;
}

/** Null where there are none, as in a thread's copy. */
export const InputsContext = createContext<Inputs | null>(null);
