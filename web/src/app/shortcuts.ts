/** The keys of the product as lists show them, whether their view is open or not. Views register what they do with them. */
import type { Command } from './commands';

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
export function grouped(registered: readonly Command[]): Map<string, Shortcut[]> {
  const known = new Set(SHORTCUTS.map(({ keys }) => keys));
  const more = registered.flatMap(({ group, title, keys }) => (keys && !known.has(keys.toLowerCase()) ? [{ group, title, keys }] : []));
  const groups = new Map<string, Shortcut[]>();
  for (const shortcut of [...SHORTCUTS, ...more]) {
    groups.set(shortcut.group, [...(groups.get(shortcut.group) ?? []), shortcut]);
  }
  return groups;
}
