/** A word about an answer rather than of it (data part `notice`), read with care. */
import type { Group } from './part-groups';

export interface Notice {
  level: 'info' | 'warning';
  text: string;
}

/** The part's value if it is one; a level that is not known is said quietly. */
export function notice(value: unknown): Notice | undefined {
  if (typeof value !== 'object' || value === null || !('text' in value) || typeof value.text !== 'string' || !value.text.trim()) return undefined;
  return { level: 'level' in value && value.level === 'warning' ? 'warning' : 'info', text: value.text };
}

/** Stands above the answer, wherever in it it was said. */
export const isNotice = (group: Group): boolean => group.kind === 'data' && group.part.type === 'data-notice' && notice(group.part.data) !== undefined;
