import { describe, expect, test } from 'vitest';
import { matches, shown, spelled, writes, type Pressed } from './keys';

const press = (key: string, more: Partial<Pressed> = {}): Pressed => ({
  key,
  code: '',
  ctrlKey: false,
  metaKey: false,
  altKey: false,
  shiftKey: false,
  ...more,
});

describe('keys', () => {
  test('mod is Control, and Command on a Mac', () => {
    expect(matches('mod+k', press('k', { ctrlKey: true }), false)).toBe(true);
    expect(matches('mod+k', press('k', { metaKey: true }), true)).toBe(true);
    expect(matches('mod+k', press('k', { ctrlKey: true }), true)).toBe(false);
    expect(matches('mod+k', press('k'), false)).toBe(false);
  });

  test('one modifier too many is another chord', () => {
    expect(matches('mod+k', press('K', { ctrlKey: true, shiftKey: true }), false)).toBe(false);
    expect(matches('mod+k', press('k', { ctrlKey: true, altKey: true }), false)).toBe(false);
    expect(matches('mod+shift+o', press('O', { ctrlKey: true, shiftKey: true }), false)).toBe(true);
  });

  test('a sign may need Shift or not, as the keyboard likes', () => {
    expect(matches('?', press('?', { shiftKey: true }), false)).toBe(true);
    expect(matches('?', press('?'), false)).toBe(true);
    expect(matches('mod+.', press('.', { ctrlKey: true }), false)).toBe(true);
  });

  test('a sign with Shift is found by its place, and is another chord than without', () => {
    const period = { ctrlKey: true, code: 'Period' };
    expect(matches('mod+shift+.', press('>', { ...period, shiftKey: true }), false)).toBe(true);
    expect(matches('mod+.', press('>', { ...period, shiftKey: true }), false)).toBe(false);
    expect(matches('mod+shift+.', press('.', period), false)).toBe(false);
  });

  test('keys with names count Shift', () => {
    expect(matches('alt+ArrowRight', press('ArrowRight', { altKey: true }), false)).toBe(true);
    expect(matches('alt+ArrowRight', press('ArrowRight', { altKey: true, shiftKey: true }), false)).toBe(false);
  });

  test('a letter is found by its place where its sign is another', () => {
    expect(matches('mod+k', press('л', { ctrlKey: true, code: 'KeyK' }), false)).toBe(true);
    expect(matches('alt+n', press('˜', { altKey: true, code: 'KeyN' }), true)).toBe(true);
    expect(matches('k', press('л', { code: 'KeyK' }), false)).toBe(false);
  });

  test('keys without a modifier write text', () => {
    expect(['?', 'shift+a', 'escape'].map(writes)).toEqual([true, true, true]);
    expect(['mod+k', 'alt+n'].map(writes)).toEqual([false, false]);
  });

  test('they are spelled as the keyboard shows them', () => {
    expect(spelled('mod+shift+o', false)).toEqual(['Ctrl', 'Shift', 'O']);
    expect(shown('mod+enter', true)).toBe('⌘↵');
    expect(shown('alt+arrowdown', false)).toBe('Alt+↓');
    expect(shown('?', false)).toBe('?');
  });
});
