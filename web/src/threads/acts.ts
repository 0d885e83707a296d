/** What can be done with a whole thread. */
import { api, reached } from '@/api/api';
import { client } from '@/api/queries';
import type { Thread, ThreadRow } from '@/api/types';
import { askText, askYes } from '@/ui/asking';

export type ExportFormat = 'jsonl' | 'html' | 'messages';
const ENDS: Record<ExportFormat, string> = { jsonl: '.jsonl', html: '.html', messages: '.messages.jsonl' };

const changed = () => client.invalidateQueries({ queryKey: ['threads'] });

export const titleOf = (thread: Pick<ThreadRow, 'title'>): string => thread.title || 'Untitled thread';

export async function renameThread(thread: ThreadRow): Promise<void> {
  const title = await askText({ title: 'Rename thread', act: 'Rename', value: thread.title, label: 'Title' });
  if (!title || title === thread.title) return;
  await api('patch', '/api/threads/{thread}', { path: { thread: thread.id }, body: { title } });
  await Promise.all([changed(), client.invalidateQueries({ queryKey: ['thread', thread.id] })]);
}

export async function pinThread(thread: ThreadRow): Promise<void> {
  await api('patch', '/api/threads/{thread}', { path: { thread: thread.id }, body: { pinned: !thread.pinned } });
  await changed();
}

/** Asks first; says whether it is gone. */
export async function deleteThread(thread: ThreadRow): Promise<boolean> {
  const sure = await askYes({
    title: 'Delete this thread?',
    text: `“${titleOf(thread)}” goes with its messages, runs and files. This cannot be undone.`,
    act: 'Delete',
    danger: true,
  });
  if (!sure) return false;
  await api('delete', '/api/threads/{thread}', { path: { thread: thread.id } });
  client.removeQueries({ queryKey: ['thread', thread.id] });
  await changed();
  return true;
}

export async function duplicateThread(thread: ThreadRow): Promise<Thread> {
  const made = await api('post', '/api/threads/{thread}/duplicate', { path: { thread: thread.id }, body: { branches: 'all' } });
  await changed();
  return made;
}

/** A file of it for the person's disk. */
export async function exportThread(thread: ThreadRow, format: ExportFormat): Promise<void> {
  const answer = await reached(`/api/threads/${encodeURIComponent(thread.id)}/export?format=${format}`, {});
  save(await answer.blob(), `${fileName(titleOf(thread))}${ENDS[format]}`);
}

/** A title as the name of a file, on any system. */
export function fileName(title: string): string {
  const name = title.normalize('NFKC').replaceAll(/[^\p{L}\p{N} _-]+/gu, ' ').replaceAll(/\s+/g, ' ').trim();
  return name.slice(0, 60).trim() || 'thread';
}

function save(blob: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
