/** Preferences of this browser, in local storage. */
import { create, type StoreApi, type UseBoundStore } from 'zustand';

export interface Preferences {
  /** The key that sends a message: Enter (Shift+Enter starts a new line), or Ctrl+Enter. */
  send: 'enter' | 'ctrl-enter';
}

const KEY = 'palaver.preferences';
const DEFAULTS: Preferences = { send: 'enter' };

function loadPreferences(): Preferences {
  try {
    const stored = JSON.parse(localStorage.getItem(KEY) ?? '{}') as Partial<Preferences>;
    return { send: stored.send === 'ctrl-enter' ? 'ctrl-enter' : DEFAULTS.send };
  } catch {
    return DEFAULTS;
  }
}

export const usePreferences = create<Preferences>(loadPreferences);

export function setPreferences(change: Partial<Preferences>): void {
  usePreferences.setState(change);
  localStorage.setItem(KEY, JSON.stringify(usePreferences.getState()));
}

/** Whether the key event sends the message. While an input method composes, Enter selects a word and does not send. */
export function isSendKey(
  event: Pick<KeyboardEvent, 'key' | 'shiftKey' | 'ctrlKey' | 'metaKey' | 'isComposing' | 'keyCode'>,
  sendKey: Preferences['send'],
): boolean {
  if (event.key !== 'Enter' || event.isComposing || event.keyCode === 229) return false;
  const hasModifier = event.ctrlKey || event.metaKey;
  return sendKey === 'enter' ? !event.shiftKey || hasModifier : hasModifier;
}

/** Create a store for a choice that local storage keeps. The first of `values` is the default. */
export function createStoredChoice<T extends string>(
  key: string,
  values: readonly [T, ...T[]],
): UseBoundStore<StoreApi<T>> {
  const useChoice = create<T>(() => values.find((value) => value === localStorage.getItem(key)) ?? values[0]);
  useChoice.subscribe((value) => {
    try {
      localStorage.setItem(key, value);
    } catch {
      // Storage may be full or forbidden.
    }
  });
  return useChoice;
}
