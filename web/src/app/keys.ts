/**
 * Keys as commands name them: `mod+k`, `mod+shift+o`, `alt+j`, `?`, `escape`. `mod` is Command on a Mac, else Control.
 * Knows no React and no document.
 */
export interface Pressed {
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

export const MAC: boolean = typeof navigator !== 'undefined' && /Mac|iPhone|iPad/.test(navigator.platform);

const PLACES: Record<string, string> = { '.': 'Period', ',': 'Comma', '/': 'Slash', ';': 'Semicolon', '[': 'BracketLeft', ']': 'BracketRight' };

function chord(keys: string): Chord {
  const parts = keys.toLowerCase().split('+').filter(Boolean);
  const named = new Set(parts.slice(0, -1));
  return { key: parts.at(-1) ?? '', mod: named.has('mod'), alt: named.has('alt'), shift: named.has('shift') };
}

/** Were these keys pressed? Letters are also found by their place: other alphabets and Option on a Mac give other signs. */
export function matches(keys: string, pressed: Pressed, mac = MAC): boolean {
  const { key, mod, alt, shift } = chord(keys);
  const other = mac ? pressed.ctrlKey : pressed.metaKey;
  if (other || mod !== (mac ? pressed.metaKey : pressed.ctrlKey) || alt !== pressed.altKey) return false;
  // A sign such as ? is written with Shift on some keyboards and without it on others; with Shift named, its place counts.
  const place = PLACES[key];
  if (place && shift) return pressed.shiftKey && pressed.code === place;
  const letter = /^([a-z0-9]|..+)$/.test(key);
  if (letter && shift !== pressed.shiftKey) return false;
  if (pressed.key.toLowerCase() === key) return true;
  return (mod || alt) && (pressed.code === `Key${key.toUpperCase()}` || pressed.code === `Digit${key}`);
}

/** Keys that also write text: not to be taken while somebody types. */
export function writes(keys: string): boolean {
  const { mod, alt } = chord(keys);
  return !mod && !alt;
}

const SIGNS: Record<string, string> = {
  enter: '↵',
  escape: 'Esc',
  arrowup: '↑',
  arrowdown: '↓',
  arrowleft: '←',
  arrowright: '→',
  ' ': 'Space',
};

/** As a person reads them, one word a key. */
export function spelled(keys: string, mac = MAC): string[] {
  const { key, mod, alt, shift } = chord(keys);
  return [
    ...(mod ? [mac ? '⌘' : 'Ctrl'] : []),
    ...(alt ? [mac ? '⌥' : 'Alt'] : []),
    ...(shift ? [mac ? '⇧' : 'Shift'] : []),
    SIGNS[key] ?? (key.length === 1 ? key.toUpperCase() : key.charAt(0).toUpperCase() + key.slice(1)),
  ];
}

/** The same as one short text, for hints and menus. */
export const shown = (keys: string, mac = MAC): string => spelled(keys, mac).join(mac ? '' : '+');
