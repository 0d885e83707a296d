/** A value in little, as the server made it (a list loads no payloads): read from the wire, and asked whether it is all. */
import type { Preview } from '@/api/types';
import { unreachable } from '@/lib/unreachable';

const RENDERERS: readonly unknown[] = ['chat', 'text', 'json', 'empty'] satisfies Preview['renderer'][];

/** The preview that a row carries; nothing, or a kind that this page does not know, is empty. */
export function previewIn(value: unknown): Preview {
  if (typeof value === 'object' && value !== null && 'renderer' in value && RENDERERS.includes(value.renderer)) return value as Preview;
  return { renderer: 'empty', text: '' };
}

/** How many characters and messages it leaves out. */
export function leftOut(preview: Preview): { characters: number; messages: number } {
  switch (preview.renderer) {
    case 'chat':
      return { characters: preview.messages.reduce((sum, { cut }) => sum + cut, 0), messages: preview.more };
    case 'text':
    case 'json':
      return { characters: preview.cut, messages: 0 };
    case 'empty':
      return { characters: 0, messages: 0 };
    default:
      return unreachable(preview) ?? { characters: 0, messages: 0 };
  }
}

export function isWhole(preview: Preview): boolean {
  const { characters, messages } = leftOut(preview);
  return characters === 0 && messages === 0;
}

/** JSON with air, when it is all there; a piece of it as it is. */
export function laidOut(body: string): string {
  try {
    return JSON.stringify(JSON.parse(body), null, 2);
  } catch {
    return body;
  }
}
