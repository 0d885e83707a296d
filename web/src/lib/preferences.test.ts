import { describe, expect, test } from 'vitest';
import { isSendKey } from './preferences';

describe('a key', () => {
  const pressed = (more: object = {}) => ({
    key: 'Enter',
    shiftKey: false,
    ctrlKey: false,
    metaKey: false,
    isComposing: false,
    keyCode: 13,
    ...more,
  });

  test('sends when it is Enter; with Shift it is a new line', () => {
    expect(isSendKey(pressed(), 'enter')).toBe(true);
    expect(isSendKey(pressed({ shiftKey: true }), 'enter')).toBe(false);
    expect(isSendKey(pressed({ key: 'a' }), 'enter')).toBe(false);
    expect(isSendKey(pressed({ ctrlKey: true }), 'enter')).toBe(true);
  });

  test('sends only with Control or Command for who wants it so', () => {
    expect(isSendKey(pressed(), 'ctrl-enter')).toBe(false);
    expect(isSendKey(pressed({ ctrlKey: true }), 'ctrl-enter')).toBe(true);
    expect(isSendKey(pressed({ metaKey: true }), 'ctrl-enter')).toBe(true);
  });

  test('never sends while an input method composes, in any browser', () => {
    for (const how of ['enter', 'ctrl-enter'] as const) {
      expect(isSendKey(pressed({ isComposing: true, ctrlKey: true }), how)).toBe(false);
      expect(isSendKey(pressed({ keyCode: 229, ctrlKey: true }), how)).toBe(false); // Safari, after the composition.
    }
  });
});
