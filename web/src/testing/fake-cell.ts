/** For tests: cells of a fake server's thread, and what one sees in them. A test file calls `serve` once. */
import { afterEach, beforeEach, vi } from 'vitest';
import type { Thread } from '@/api/types';
import type { ChatMessage } from '@/components/messages/message';
import { CellChat, type CellOptions } from '@/pages/playground/chat/cell-chat';
import { FakeServer } from './fake-server';

export let server: FakeServer;

export function serve(): void {
  beforeEach(() => {
    server = new FakeServer();
  });
  afterEach(() => {
    vi.restoreAllMocks();
    vi.unstubAllGlobals();
  });
}

export const PLACE = { workflow: 'tutor', variant: 'short', parameters: { t: 1 }, inputs: { subject: 'physics' } };
export const cellOf = (more: Partial<CellOptions> = {}): CellChat =>
  new CellChat({
    thread: null,
    place: () => PLACE,
    make: async () => ({ id: 'conv_1' }) as Thread,
    forked: () => {},
    ...more,
  });

export async function shown(cell: CellChat): Promise<CellChat> {
  cell.open();
  await until(() => !cell.loading);
  return cell;
}
export const opened = (more: Partial<CellOptions> = {}) => shown(cellOf({ thread: 'conv_1', ...more }));

export const until = (true_: () => boolean) =>
  vi.waitFor(
    () => {
      if (!true_()) throw new Error('Not yet.');
    },
    { timeout: 4000, interval: 5 },
  );
export const calm = (cell: CellChat) => until(() => !cell.busy && !cell.loading);
export const pause = (milliseconds = 30) => new Promise((resolve) => setTimeout(resolve, milliseconds));

export const words = (message: ChatMessage): string =>
  message.parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
export const told = (cell: CellChat): string[] =>
  cell.chat.messages.map((message) => `${message.role}: ${words(message)}`);
export const text = (said: string) => [{ type: 'text' as const, text: said }];

/** Send, and wait until the workflow is asked. */
export async function asked(cell: CellChat, said: string): Promise<void> {
  const before = server.ended.length;
  void cell.send(text(said));
  await until(() => server.run !== null && server.ended.length >= before && told(cell).includes(`user: ${said}`));
}
