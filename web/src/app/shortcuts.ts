/** The keys of the product, in one place: views take theirs from here (`keys: KEYS.stop`), the lists show them all. */
import type { Command } from './commands';

export const KEYS = {
  palette: 'mod+k',
  help: '?',
  newChat: 'mod+shift+o',
  sidebar: 'mod+b',
  stop: 'mod+.',
  stopAll: 'mod+shift+.',
  nextCell: 'alt+n',
  previousCell: 'alt+p',
  newThread: 'alt+t',
  addVariant: 'alt+v',
} as const;

export type Shortcut = Pick<Command, 'title' | 'group'> & { keys: string };

export const SHORTCUTS: readonly Shortcut[] = [
  { group: 'Everywhere', title: 'Find a page, a thread or something to do', keys: KEYS.palette },
  { group: 'Everywhere', title: 'New chat', keys: KEYS.newChat },
  { group: 'Everywhere', title: 'Show or hide the sidebar', keys: KEYS.sidebar },
  { group: 'Everywhere', title: 'Show the shortcuts', keys: KEYS.help },
  { group: 'Playground', title: 'Stop this answer', keys: KEYS.stop },
  { group: 'Playground', title: 'Stop all answers', keys: KEYS.stopAll },
  { group: 'Playground', title: 'Next cell', keys: KEYS.nextCell },
  { group: 'Playground', title: 'Previous cell', keys: KEYS.previousCell },
  { group: 'Playground', title: 'New thread', keys: KEYS.newThread },
  { group: 'Playground', title: 'Add a variant', keys: KEYS.addVariant },
];

/** The table, and the keys of commands that are not in it, by group. */
export function grouped(registered: readonly Command[]): Map<string, Shortcut[]> {
  const known = new Set(SHORTCUTS.map(({ keys }) => keys));
  const more = registered.flatMap(({ group, title, keys }) => (keys && !known.has(keys) ? [{ group, title, keys }] : []));
  const groups = new Map<string, Shortcut[]>();
  for (const shortcut of [...SHORTCUTS, ...more]) {
    groups.set(shortcut.group, [...(groups.get(shortcut.group) ?? []), shortcut]);
  }
  return groups;
}
