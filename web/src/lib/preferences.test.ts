import { describe, expect, test } from 'vitest';
import { isSendKey } from './preferences';

describe('a key press', () => {
  const keyPress = (more: object = {}) => ({
    key: 'Enter',
    shiftKey: false,
    ctrlKey: false,
    metaKey: false,
    isComposing: false,
    keyCode: 13,
    ...more,
  });

  test('sends with Enter, but not with Shift+Enter', () => {
    expect(isSendKey(keyPress(), 'enter')).toBe(true);
    expect(isSendKey(keyPress({ shiftKey: true }), 'enter')).toBe(false);
    expect(isSendKey(keyPress({ key: 'a' }), 'enter')).toBe(false);
    expect(isSendKey(keyPress({ ctrlKey: true }), 'enter')).toBe(true);
  });

  test('sends only with Control or Command if the preference is ctrl-enter', () => {
    expect(isSendKey(keyPress(), 'ctrl-enter')).toBe(false);
    expect(isSendKey(keyPress({ ctrlKey: true }), 'ctrl-enter')).toBe(true);
    expect(isSendKey(keyPress({ metaKey: true }), 'ctrl-enter')).toBe(true);
  });

  test('never sends while an input method composes', () => {
    for (const sendKey of ['enter', 'ctrl-enter'] as const) {
      expect(isSendKey(keyPress({ isComposing: true, ctrlKey: true }), sendKey)).toBe(false);
      expect(isSendKey(keyPress({ keyCode: 229, ctrlKey: true }), sendKey)).toBe(false); // Safari, after the composition.
    }
  });
});
