/** What a person chose for this browser. Kept in local storage, read by any component. */
import { useSyncExternalStore } from 'react';

export interface Preferences {
  /** How chat cells reach the server: our UI stream, or /invocations as an external AI SDK client would. */
  transport: 'ui-stream' | 'invocations';
  /** What sends: Enter (Shift+Enter is a new line), or Ctrl+Enter. */
  send: 'enter' | 'ctrl-enter';
}

const KEY = 'palaver.preferences';
const DEFAULTS: Preferences = { transport: 'ui-stream', send: 'enter' };
const listeners = new Set<() => void>();
let current = read();

function read(): Preferences {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? '{}') as Partial<Preferences>;
    return {
      transport: kept.transport === 'invocations' ? 'invocations' : DEFAULTS.transport,
      send: kept.send === 'ctrl-enter' ? 'ctrl-enter' : DEFAULTS.send,
    };
  } catch {
    return DEFAULTS;
  }
}

export const preferences = (): Preferences => current;

export function prefer(change: Partial<Preferences>): void {
  current = { ...current, ...change };
  localStorage.setItem(KEY, JSON.stringify(current));
  for (const listener of listeners) listener();
}

export function usePreferences(): Preferences {
  return useSyncExternalStore((listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  }, preferences);
}

/** Which key sends. While an input method composes, Enter chooses a word and sends nothing. */
export function sends(event: Pick<KeyboardEvent, 'key' | 'shiftKey' | 'ctrlKey' | 'metaKey' | 'isComposing' | 'keyCode'>, by: Preferences['send']): boolean {
  if (event.key !== 'Enter' || event.isComposing || event.keyCode === 229) return false;
  const modified = event.ctrlKey || event.metaKey;
  return by === 'enter' ? !event.shiftKey || modified : modified;
}
