/** Which key sends. While an input method composes, Enter chooses a word and sends nothing. */
import type { Preferences } from '@/settings/preferences';

export function sends(event: Pick<KeyboardEvent, 'key' | 'shiftKey' | 'ctrlKey' | 'metaKey' | 'isComposing' | 'keyCode'>, by: Preferences['send']): boolean {
  if (event.key !== 'Enter' || event.isComposing || event.keyCode === 229) return false;
  const modified = event.ctrlKey || event.metaKey;
  return by === 'enter' ? !event.shiftKey || modified : modified;
}
