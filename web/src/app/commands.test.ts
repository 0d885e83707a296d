import { describe, expect, test } from 'vitest';
import {
  Commands,
  type Command,
  matchesKeys,
  formatShortcut,
  formatKeys,
  typesText,
  type KeyPress,
  groupShortcuts,
  SHORTCUTS,
} from './commands';

const command = (id: string, keys?: string, more: Partial<Command> = {}): Command => ({
  id,
  title: id,
  group: 'Test',
  run: () => {},
  ...(keys ? { keys } : {}),
  ...more,
});
const press = (key: string, ctrlKey = false) => ({
  key,
  code: '',
  ctrlKey,
  metaKey: false,
  altKey: false,
  shiftKey: false,
});
const NO_FOCUS = { typing: false, dialog: false };

describe('commands', () => {
  test('are listed until they are removed, and listeners are notified of both', () => {
    const commands = new Commands();
    let callCount = 0;
    commands.available.subscribe(() => (callCount += 1));

    const remove = commands.add(command('stop'));
    expect(commands.available.getState().map(({ id }) => id)).toEqual(['stop']);
    remove();

    expect(commands.available.getState()).toEqual([]);
    expect(callCount).toBe(2);
  });

  test('override an earlier one with the same id until they are removed', () => {
    const commands = new Commands();
    const first = command('send', 'mod+s');
    const second = command('send', 'mod+s');
    commands.add(first);
    const remove = commands.add(second);

    expect(commands.available.getState()).toEqual([second]);
    expect(commands.find(press('s', true), NO_FOCUS)).toBe(second);
    remove();
    expect(commands.find(press('s', true), NO_FOCUS)).toBe(first);
  });

  test('without a modifier do not run while the user types', () => {
    const commands = new Commands();
    const help = command('help', '?');
    const stop = command('stop', 'mod+.');
    commands.add(help);
    commands.add(stop);

    expect(commands.find(press('?'), NO_FOCUS)).toBe(help);
    expect(commands.find(press('?'), { ...NO_FOCUS, typing: true })).toBeUndefined();
    expect(commands.find(press('.', true), { ...NO_FOCUS, typing: true })).toBe(stop);
  });

  test('do not run behind a dialog unless they are available everywhere', () => {
    const commands = new Commands();
    const palette = command('palette', 'mod+k', { everywhere: true });
    commands.add(palette);
    commands.add(command('stop', 'mod+.'));

    expect(commands.find(press('k', true), { ...NO_FOCUS, dialog: true })).toBe(palette);
    expect(commands.find(press('.', true), { ...NO_FOCUS, dialog: true })).toBeUndefined();
  });
});

const keyEvent = (key: string, more: Partial<KeyPress> = {}): KeyPress => ({
  key,
  code: '',
  ctrlKey: false,
  metaKey: false,
  altKey: false,
  shiftKey: false,
  ...more,
});

describe('key chords', () => {
  test('use Control as mod, and Command on a Mac', () => {
    expect(matchesKeys('mod+k', keyEvent('k', { ctrlKey: true }), false)).toBe(true);
    expect(matchesKeys('mod+k', keyEvent('k', { metaKey: true }), true)).toBe(true);
    expect(matchesKeys('mod+k', keyEvent('k', { ctrlKey: true }), true)).toBe(false);
    expect(matchesKeys('mod+k', keyEvent('k'), false)).toBe(false);
  });

  test('do not match with an additional modifier', () => {
    expect(matchesKeys('mod+k', keyEvent('K', { ctrlKey: true, shiftKey: true }), false)).toBe(false);
    expect(matchesKeys('mod+k', keyEvent('k', { ctrlKey: true, altKey: true }), false)).toBe(false);
    expect(matchesKeys('mod+shift+o', keyEvent('O', { ctrlKey: true, shiftKey: true }), false)).toBe(true);
  });

  test('with a symbol match with or without Shift, depending on the layout', () => {
    expect(matchesKeys('?', keyEvent('?', { shiftKey: true }), false)).toBe(true);
    expect(matchesKeys('?', keyEvent('?'), false)).toBe(true);
    expect(matchesKeys('mod+.', keyEvent('.', { ctrlKey: true }), false)).toBe(true);
  });

  test('with Shift and a symbol match by key position, and differ from those without Shift', () => {
    const period = { ctrlKey: true, code: 'Period' };
    expect(matchesKeys('mod+shift+.', keyEvent('>', { ...period, shiftKey: true }), false)).toBe(true);
    expect(matchesKeys('mod+.', keyEvent('>', { ...period, shiftKey: true }), false)).toBe(false);
    expect(matchesKeys('mod+shift+.', keyEvent('.', period), false)).toBe(false);
  });

  test('with a named key match only with the same Shift state', () => {
    expect(matchesKeys('alt+ArrowRight', keyEvent('ArrowRight', { altKey: true }), false)).toBe(true);
    expect(matchesKeys('alt+ArrowRight', keyEvent('ArrowRight', { altKey: true, shiftKey: true }), false)).toBe(false);
  });

  test('with a modifier and a letter match by key position on other layouts', () => {
    expect(matchesKeys('mod+k', keyEvent('л', { ctrlKey: true, code: 'KeyK' }), false)).toBe(true);
    expect(matchesKeys('alt+n', keyEvent('˜', { altKey: true, code: 'KeyN' }), true)).toBe(true);
    expect(matchesKeys('k', keyEvent('л', { code: 'KeyK' }), false)).toBe(false);
  });

  test('without a modifier type text', () => {
    expect(['?', 'shift+a', 'escape'].map(typesText)).toEqual([true, true, true]);
    expect(['mod+k', 'alt+n'].map(typesText)).toEqual([false, false]);
  });

  test('are formatted as the keyboard shows them', () => {
    expect(formatKeys('mod+shift+o', false)).toEqual(['Ctrl', 'Shift', 'O']);
    expect(formatShortcut('mod+enter', true)).toBe('⌘↵');
    expect(formatShortcut('alt+arrowdown', false)).toBe('Alt+↓');
    expect(formatShortcut('?', false)).toBe('?');
  });
});

const run = () => {};

test('groups the shortcuts of the table and of open views without duplicates', () => {
  const groups = groupShortcuts([
    { id: 'next-cell', title: 'Next cell', group: 'Chat', keys: 'alt+ArrowRight', run },
    { id: 'zoom', title: 'Zoom', group: 'Traces', keys: 'z', run },
    { id: 'quiet', title: 'Without keys', group: 'Traces', run },
  ]);

  expect(groups.get('Traces')).toEqual([{ group: 'Traces', title: 'Zoom', keys: 'z' }]);
  expect([...groups.values()].flat()).toHaveLength(SHORTCUTS.length + 1);
});
