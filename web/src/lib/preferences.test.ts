import { describe, expect, test } from 'vitest';
import { sends } from './preferences';

describe('a key', () => {
  const pressed = (more: object = {}) => ({ key: 'Enter', shiftKey: false, ctrlKey: false, metaKey: false, isComposing: false, keyCode: 13, ...more });

  test('sends when it is Enter; with Shift it is a new line', () => {
    expect(sends(pressed(), 'enter')).toBe(true);
    expect(sends(pressed({ shiftKey: true }), 'enter')).toBe(false);
    expect(sends(pressed({ key: 'a' }), 'enter')).toBe(false);
    expect(sends(pressed({ ctrlKey: true }), 'enter')).toBe(true);
  });

  test('sends only with Control or Command for who wants it so', () => {
    expect(sends(pressed(), 'ctrl-enter')).toBe(false);
    expect(sends(pressed({ ctrlKey: true }), 'ctrl-enter')).toBe(true);
    expect(sends(pressed({ metaKey: true }), 'ctrl-enter')).toBe(true);
  });

  test('never sends while an input method composes, in any browser', () => {
    for (const how of ['enter', 'ctrl-enter'] as const) {
      expect(sends(pressed({ isComposing: true, ctrlKey: true }), how)).toBe(false);
      expect(sends(pressed({ keyCode: 229, ctrlKey: true }), how)).toBe(false); // Safari says so after the composition has ended.
    }
  });
});
