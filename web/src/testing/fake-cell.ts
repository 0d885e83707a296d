/** Test helper: cells on a fake server. Call `startServer` once in a test file. */
import { afterEach, beforeEach, vi } from 'vitest';
import type { Thread } from '@/api/client';
import type { ChatMessage } from '@/components/messages/message';
import { CellChat, type CellOptions } from '@/pages/playground/chat/cell-chat';
import { FakeServer } from './fake-server';

export let server: FakeServer;

export function startServer(): void {
  beforeEach(() => {
    server = new FakeServer();
  });
  afterEach(() => {
    vi.restoreAllMocks();
    vi.unstubAllGlobals();
  });
}

export const PLACEMENT = { workflow: 'tutor', variant: 'short', parameters: { t: 1 }, inputs: { subject: 'physics' } };
export const createCell = (more: Partial<CellOptions> = {}): CellChat =>
  new CellChat({
    thread: null,
    placement: () => PLACEMENT,
    createThread: async () => ({ id: 'conv_1' }) as Thread,
    onForked: () => {},
    ...more,
  });

export async function openCell(cell: CellChat): Promise<CellChat> {
  cell.open();
  await waitUntil(() => !cell.loading);
  return cell;
}
export const openThreadCell = (more: Partial<CellOptions> = {}) => openCell(createCell({ thread: 'conv_1', ...more }));

export const waitUntil = (condition: () => boolean) =>
  vi.waitFor(
    () => {
      if (!condition()) throw new Error('Not yet.');
    },
    { timeout: 4000, interval: 5 },
  );
export const waitUntilIdle = (cell: CellChat) => waitUntil(() => !cell.busy && !cell.loading);
export const pause = (milliseconds = 30) => new Promise((resolve) => setTimeout(resolve, milliseconds));

export const messageText = (message: ChatMessage): string =>
  message.parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
export const transcript = (cell: CellChat): string[] =>
  cell.chat.messages.map((message) => `${message.role}: ${messageText(message)}`);
export const textParts = (text: string) => [{ type: 'text' as const, text: text }];

/** Send, and wait until the workflow runs. */
export async function sendAndWait(cell: CellChat, text: string): Promise<void> {
  const before = server.endedRuns.length;
  void cell.send(textParts(text));
  await waitUntil(
    () => server.run !== null && server.endedRuns.length >= before && transcript(cell).includes(`user: ${text}`),
  );
}
