import { describe, expect, test } from 'vitest';
import { Commands, type Command } from './commands';

const command = (id: string, keys?: string, more: Partial<Command> = {}): Command => ({
  id,
  title: id,
  group: 'Test',
  run: () => {},
  ...(keys ? { keys } : {}),
  ...more,
});
const press = (key: string, ctrlKey = false) => ({ key, code: '', ctrlKey, metaKey: false, altKey: false, shiftKey: false });
const HERE = { typing: false, dialog: false };

describe('commands', () => {
  test('a command is listed until it leaves, and listeners hear of both', () => {
    const commands = new Commands();
    let heard = 0;
    commands.subscribe(() => (heard += 1));

    const leave = commands.add(command('stop'));
    expect(commands.list().map(({ id }) => id)).toEqual(['stop']);
    leave();

    expect(commands.list()).toEqual([]);
    expect(heard).toBe(2);
  });

  test('of two with one id the later counts, and when it leaves the first does again', () => {
    const commands = new Commands();
    const first = command('send', 'mod+s');
    const second = command('send', 'mod+s');
    commands.add(first);
    const leave = commands.add(second);

    expect(commands.list()).toEqual([second]);
    expect(commands.meant(press('s', true), HERE)).toBe(second);
    leave();
    expect(commands.meant(press('s', true), HERE)).toBe(first);
  });

  test('somebody who types gives no command without a modifier', () => {
    const commands = new Commands();
    const help = command('help', '?');
    const stop = command('stop', 'mod+.');
    commands.add(help);
    commands.add(stop);

    expect(commands.meant(press('?'), HERE)).toBe(help);
    expect(commands.meant(press('?'), { ...HERE, typing: true })).toBeUndefined();
    expect(commands.meant(press('.', true), { ...HERE, typing: true })).toBe(stop);
  });

  test('behind a dialog nothing happens but what is for everywhere', () => {
    const commands = new Commands();
    const palette = command('palette', 'mod+k', { everywhere: true });
    commands.add(palette);
    commands.add(command('stop', 'mod+.'));

    expect(commands.meant(press('k', true), { ...HERE, dialog: true })).toBe(palette);
    expect(commands.meant(press('.', true), { ...HERE, dialog: true })).toBeUndefined();
  });
});
