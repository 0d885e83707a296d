/**
 * What can be done now, by name and by keys. A view registers its commands while it is shown (`useCommand`); the
 * palette
 * lists them and the keyboard runs them. The store knows no React.
 */
import { useEffect, useEffectEvent } from 'react';
import { createStore, useStore } from 'zustand';

export interface Command {
  id: string;
  title: string;
  /** The heading in the palette and in the list of shortcuts. */
  group: string;
  /** As in keys.ts: `mod+.`, `alt+n`, `?`. */
  keys?: string;
  run: () => void;
  /** Also while a dialog is open. */
  everywhere?: boolean;
}

/** Where the keyboard is when a key is pressed. */
export interface FocusContext {
  typing: boolean;
  dialog: boolean;
}

export class Commands {
  #registered: readonly Command[] = [];
  /** The available commands in the order of registration, one for each id. */
  readonly available = createStore<readonly Command[]>(() => []);

  /** Of two with the same id the later one counts, until it leaves. */
  add(command: Command): () => void {
    this.#register([...this.#registered, command]);
    return () => this.#register(this.#registered.filter((one) => one !== command));
  }

  /** The command that these keys run here. */
  find(pressed: KeyPress, { typing, dialog }: FocusContext): Command | undefined {
    return this.available
      .getState()
      .findLast(
        ({ keys, everywhere }) =>
          keys && (everywhere || !dialog) && !(typing && typesText(keys)) && matchesKeys(keys, pressed),
      );
  }

  #register(registered: readonly Command[]): void {
    this.#registered = registered;
    this.available.setState([...new Map(registered.map((command) => [command.id, command])).values()], true);
  }
}

export const commands = new Commands();

/** Offer a command while this component is shown; nothing (`null`, `false`) while it cannot be done. */
export function useCommand(command: Command | null | false | undefined): void {
  const run = useEffectEvent(() => command && command.run());
  const { id, title, group, keys, everywhere } = command || {};
  useEffect(() => {
    if (id === undefined || title === undefined || group === undefined) return undefined;
    return commands.add({ id, title, group, run, ...(keys ? { keys } : {}), ...(everywhere ? { everywhere } : {}) });
  }, [id, title, group, keys, everywhere]);
}

export const useCommands = (): readonly Command[] => useStore(commands.available);

/** Let the keyboard run commands. */
export function listenForKeys(): () => void {
  window.addEventListener('keydown', handleKey);
  return () => window.removeEventListener('keydown', handleKey);
}

/**
 * Not while an input method composes (some browsers say so only by the old code), and not what somebody has dealt with
 * already.
 */
function handleKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing || event.keyCode === 229 || event.repeat) return;
  const command = commands.find(event, focusContext(event.target));
  if (!command) return;
  event.preventDefault();
  command.run();
}

function focusContext(target: EventTarget | null): FocusContext {
  const element = target instanceof HTMLElement ? target : null;
  return {
    typing: element !== null && (element.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName)),
    dialog: Boolean(element?.closest('[role=dialog],[role=alertdialog],[role=menu]')),
  };
}

export interface KeyPress {
  key: string;
  code: string;
  ctrlKey: boolean;
  metaKey: boolean;
  altKey: boolean;
  shiftKey: boolean;
}

interface Chord {
  key: string;
  mod: boolean;
  alt: boolean;
  shift: boolean;
}

/**
 * Keys as commands name them: `mod+k`, `mod+shift+o`, `alt+j`, `?`, `escape`. `mod` is Command on a Mac, else Control.
 * Knows no React and no document.
 */
export const MAC: boolean = typeof navigator !== 'undefined' && /Mac|iPhone|iPad/.test(navigator.platform);

const KEY_CODES: Record<string, string> = {
  '.': 'Period',
  ',': 'Comma',
  '/': 'Slash',
  ';': 'Semicolon',
  '[': 'BracketLeft',
  ']': 'BracketRight',
};

function parseChord(keys: string): Chord {
  const parts = keys.toLowerCase().split('+').filter(Boolean);
  const named = new Set(parts.slice(0, -1));
  return { key: parts.at(-1) ?? '', mod: named.has('mod'), alt: named.has('alt'), shift: named.has('shift') };
}

/**
 * Were these keys pressed? Letters are also found by their place: other alphabets and Option on a Mac give other
 * signs.
 */
export function matchesKeys(keys: string, pressed: KeyPress, mac = MAC): boolean {
  const { key, mod, alt, shift } = parseChord(keys);
  const other = mac ? pressed.ctrlKey : pressed.metaKey;
  if (other || mod !== (mac ? pressed.metaKey : pressed.ctrlKey) || alt !== pressed.altKey) return false;
  // A sign such as ? is written with Shift on some keyboards and without it on others; with Shift named, its place
  // counts.
  const place = KEY_CODES[key];
  if (place && shift) return pressed.shiftKey && pressed.code === place;
  const letter = /^([a-z0-9]|..+)$/.test(key);
  if (letter && shift !== pressed.shiftKey) return false;
  if (pressed.key.toLowerCase() === key) return true;
  return (mod || alt) && (pressed.code === `Key${key.toUpperCase()}` || pressed.code === `Digit${key}`);
}

/** Keys that also write text: not to be taken while somebody types. */
export function typesText(keys: string): boolean {
  const { mod, alt } = parseChord(keys);
  return !mod && !alt;
}

const KEY_SYMBOLS: Record<string, string> = {
  enter: '↵',
  escape: 'Esc',
  arrowup: '↑',
  arrowdown: '↓',
  arrowleft: '←',
  arrowright: '→',
  ' ': 'Space',
};

/** As a person reads them, one word a key. */
export function formatKeys(keys: string, mac = MAC): string[] {
  const { key, mod, alt, shift } = parseChord(keys);
  return [
    ...(mod ? [mac ? '⌘' : 'Ctrl'] : []),
    ...(alt ? [mac ? '⌥' : 'Alt'] : []),
    ...(shift ? [mac ? '⇧' : 'Shift'] : []),
    KEY_SYMBOLS[key] ?? (key.length === 1 ? key.toUpperCase() : key.charAt(0).toUpperCase() + key.slice(1)),
  ];
}

/** The same as one short text, for hints and menus. */
export const formatShortcut = (keys: string, mac = MAC): string => formatKeys(keys, mac).join(mac ? '' : '+');

/**
 * The keys of the product as lists show them, whether their view is open or not. Views register what they do with
 * them.
 */
export const KEYS = { palette: 'mod+k', help: '?', newChat: 'mod+shift+o', sidebar: 'mod+b' } as const;

export type Shortcut = Pick<Command, 'title' | 'group'> & { keys: string };

export const SHORTCUTS: readonly Shortcut[] = [
  { group: 'Everywhere', title: 'Find a page, a thread or something to do', keys: KEYS.palette },
  { group: 'Everywhere', title: 'New chat', keys: KEYS.newChat },
  { group: 'Everywhere', title: 'Show or hide the sidebar', keys: KEYS.sidebar },
  { group: 'Everywhere', title: 'Show the shortcuts', keys: KEYS.help },
  { group: 'Chat', title: 'Write a message', keys: '/' },
  { group: 'Chat', title: 'Stop this cell', keys: 'mod+.' },
  { group: 'Chat', title: 'Stop all cells', keys: 'mod+shift+.' },
  { group: 'Chat', title: 'Next cell', keys: 'alt+arrowright' },
  { group: 'Chat', title: 'Previous cell', keys: 'alt+arrowleft' },
  { group: 'Chat', title: 'Add a thread', keys: 'alt+t' },
  { group: 'Chat', title: 'Add a variant', keys: 'alt+v' },
];

/** The table, and the keys of commands that are not in it, by group. */
export function groupShortcuts(registered: readonly Command[]): Map<string, Shortcut[]> {
  const known = new Set(SHORTCUTS.map(({ keys }) => keys));
  const more = registered.flatMap(({ group, title, keys }) =>
    keys && !known.has(keys.toLowerCase()) ? [{ group, title, keys }] : [],
  );
  const groups = new Map<string, Shortcut[]>();
  for (const shortcut of [...SHORTCUTS, ...more]) {
    groups.set(shortcut.group, [...(groups.get(shortcut.group) ?? []), shortcut]);
  }
  return groups;
}
