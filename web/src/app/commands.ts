/**
 * Commands and keyboard shortcuts. A view registers commands while it is mounted (`useCommand`); the palette lists
 * them and the keyboard runs them.
 */
import { useEffect, useEffectEvent } from 'react';
import { createStore, useStore } from 'zustand';

export interface Command {
  id: string;
  title: string;
  /** Heading in the palette and in the list of shortcuts. */
  group: string;
  /** Key chord: `mod+.`, `alt+n`, `?`. */
  keys?: string;
  run: () => void;
  /** Whether it also works while a dialog is open. */
  everywhere?: boolean;
}

/** Where the focus is when a key is pressed. */
export interface FocusContext {
  typing: boolean;
  dialog: boolean;
}

export class Commands {
  #registered: readonly Command[] = [];
  /** The available commands in the order of registration, one for each id. */
  readonly available = createStore<readonly Command[]>(() => []);

  /** Register a command; the last one with an id wins. Returns the function that unregisters it. */
  add(command: Command): () => void {
    this.#register([...this.#registered, command]);
    return () => this.#register(this.#registered.filter((other) => other !== command));
  }

  /** The command for a key press, if any. */
  find(press: KeyPress, { typing, dialog }: FocusContext): Command | undefined {
    return this.available
      .getState()
      .findLast(
        ({ keys, everywhere }) =>
          keys && (everywhere || !dialog) && !(typing && typesText(keys)) && matchesKeys(keys, press),
      );
  }

  #register(registered: readonly Command[]): void {
    this.#registered = registered;
    this.available.setState([...new Map(registered.map((command) => [command.id, command])).values()], true);
  }
}

export const commands = new Commands();

/** Register a command while the component is mounted; `null` or `false` registers nothing. */
export function useCommand(command: Command | null | false | undefined): void {
  const run = useEffectEvent(() => command && command.run());
  const { id, title, group, keys, everywhere } = command || {};
  useEffect(() => {
    if (id === undefined || title === undefined || group === undefined) return undefined;
    return commands.add({ id, title, group, run, ...(keys ? { keys } : {}), ...(everywhere ? { everywhere } : {}) });
  }, [id, title, group, keys, everywhere]);
}

export const useCommands = (): readonly Command[] => useStore(commands.available);

/** Run commands on key presses. Returns the function that stops it. */
export function listenForKeys(): () => void {
  window.addEventListener('keydown', handleKey);
  return () => window.removeEventListener('keydown', handleKey);
}

/** Ignores handled events and those of an input method (some browsers only signal it by key code 229). */
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

/** Whether the `mod` of chords such as `mod+k` is Command instead of Control. */
export const IS_MAC: boolean = typeof navigator !== 'undefined' && /Mac|iPhone|iPad/.test(navigator.platform);

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
  const modifiers = new Set(parts.slice(0, -1));
  return {
    key: parts.at(-1) ?? '',
    mod: modifiers.has('mod'),
    alt: modifiers.has('alt'),
    shift: modifiers.has('shift'),
  };
}

/**
 * Whether the chord was pressed. Letters also match by position, because other layouts and Option on a Mac produce
 * other characters.
 */
export function matchesKeys(keys: string, press: KeyPress, mac = IS_MAC): boolean {
  const { key, mod, alt, shift } = parseChord(keys);
  const hasOtherModifier = mac ? press.ctrlKey : press.metaKey;
  if (hasOtherModifier || mod !== (mac ? press.metaKey : press.ctrlKey) || alt !== press.altKey) return false;
  // Some layouts need Shift for a sign such as ?; if the chord names Shift, match by position.
  const code = KEY_CODES[key];
  if (code && shift) return press.shiftKey && press.code === code;
  const isLetter = /^([a-z0-9]|..+)$/.test(key);
  if (isLetter && shift !== press.shiftKey) return false;
  if (press.key.toLowerCase() === key) return true;
  return (mod || alt) && (press.code === `Key${key.toUpperCase()}` || press.code === `Digit${key}`);
}

/** Whether the chord types text; such commands don't run while a text field has the focus. */
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

/** The keys of a chord as shown to the user. */
export function formatKeys(keys: string, mac = IS_MAC): string[] {
  const { key, mod, alt, shift } = parseChord(keys);
  return [
    ...(mod ? [mac ? '⌘' : 'Ctrl'] : []),
    ...(alt ? [mac ? '⌥' : 'Alt'] : []),
    ...(shift ? [mac ? '⇧' : 'Shift'] : []),
    KEY_SYMBOLS[key] ?? (key.length === 1 ? key.toUpperCase() : key.charAt(0).toUpperCase() + key.slice(1)),
  ];
}

/** A chord as one short text, for tooltips and menus. */
export const formatShortcut = (keys: string, mac = IS_MAC): string => formatKeys(keys, mac).join(mac ? '' : '+');

/** Shortcuts as the help lists them, whether or not their view is open. */
export const KEYS = { palette: 'mod+k', help: '?', newChat: 'mod+shift+o', sidebar: 'mod+b' } as const;

export type Shortcut = Pick<Command, 'title' | 'group'> & { keys: string };

export const SHORTCUTS: readonly Shortcut[] = [
  { group: 'General', title: 'Search or run a command', keys: KEYS.palette },
  { group: 'General', title: 'New chat', keys: KEYS.newChat },
  { group: 'General', title: 'Toggle sidebar', keys: KEYS.sidebar },
  { group: 'General', title: 'Show keyboard shortcuts', keys: KEYS.help },
  { group: 'Chat', title: 'Write a message', keys: '/' },
  { group: 'Chat', title: 'Stop this cell', keys: 'mod+.' },
  { group: 'Chat', title: 'Stop all cells', keys: 'mod+shift+.' },
  { group: 'Chat', title: 'Next cell', keys: 'alt+arrowright' },
  { group: 'Chat', title: 'Previous cell', keys: 'alt+arrowleft' },
  { group: 'Chat', title: 'Add thread', keys: 'alt+t' },
  { group: 'Chat', title: 'Add variant', keys: 'alt+v' },
];

/** All shortcuts by group: the table above, then registered commands that are not in it. */
export function groupShortcuts(registered: readonly Command[]): Map<string, Shortcut[]> {
  const documented = new Set(SHORTCUTS.map(({ keys }) => keys));
  const undocumented = registered.flatMap(({ group, title, keys }) =>
    keys && !documented.has(keys.toLowerCase()) ? [{ group, title, keys }] : [],
  );
  const groups = new Map<string, Shortcut[]>();
  for (const shortcut of [...SHORTCUTS, ...undocumented]) {
    groups.set(shortcut.group, [...(groups.get(shortcut.group) ?? []), shortcut]);
  }
  return groups;
}
