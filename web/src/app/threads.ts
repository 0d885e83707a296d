/** Queries and actions for whole threads. */
import { type InfiniteData, infiniteQueryOptions, keepPreviousData, queryOptions } from '@tanstack/react-query';
import { api, fetchOk, type ResponseBody, type Thread, type ThreadRow, type Board } from '@/api/client';
import { queryClient } from '@/api/queries';
import { askText, askConfirmation } from '@/components/confirm-dialog';

export type ExportFormat = 'jsonl' | 'html' | 'messages';
const FILE_EXTENSIONS: Record<ExportFormat, string> = { jsonl: '.jsonl', html: '.html', messages: '.messages.jsonl' };

type Page = ResponseBody<'/api/threads', 'get'>;

/** Refetch the lists in the background. */
const refreshThreads = (): void => void queryClient.invalidateQueries({ queryKey: ['threads'] });

/** Remove the thread from all cached lists at once. */
function removeFromLists(id: string): void {
  const withoutThread = (page: Page): Page => ({ ...page, data: page.data.filter((row) => row.id !== id) });
  queryClient.setQueriesData<InfiniteData<Page>>(
    { queryKey: ['threads', 'pages'] },
    (cached) => cached && { ...cached, pages: cached.pages.map(withoutThread) },
  );
  queryClient.setQueriesData<Page>({ queryKey: ['threads', 'pinned'] }, (page) => page && withoutThread(page));
}

export const threadTitle = (thread: Pick<ThreadRow, 'title'>): string => thread.title || 'Untitled thread';

export async function renameThread(thread: ThreadRow): Promise<void> {
  const title = await askText({ title: 'Rename thread', act: 'Rename', value: thread.title, label: 'Title' });
  if (!title || title === thread.title) return;
  await api('patch', '/api/threads/{thread}', { path: { thread: thread.id }, body: { title } });
  refreshThreads();
  void queryClient.invalidateQueries({ queryKey: ['thread', thread.id] });
}

export async function pinThread(thread: ThreadRow): Promise<void> {
  await api('patch', '/api/threads/{thread}', { path: { thread: thread.id }, body: { pinned: !thread.pinned } });
  refreshThreads();
}

/** Asks for confirmation; resolves to whether the thread was deleted. */
export async function deleteThread(thread: ThreadRow): Promise<boolean> {
  const confirmed = await askConfirmation({
    title: 'Delete this thread?',
    text: `“${threadTitle(thread)}” and its messages, runs and files will be deleted. This cannot be undone.`,
    act: 'Delete',
    danger: true,
  });
  if (!confirmed) return false;
  await api('delete', '/api/threads/{thread}', { path: { thread: thread.id } });
  removeFromLists(thread.id);
  refreshThreads();
  return true;
}

export async function duplicateThread(thread: ThreadRow): Promise<Thread> {
  const copy = await api('post', '/api/threads/{thread}/duplicate', {
    path: { thread: thread.id },
    body: { branches: 'all' },
  });
  refreshThreads();
  return copy;
}

/** Download the thread as a file. */
export async function exportThread(thread: ThreadRow, format: ExportFormat): Promise<void> {
  const response = await fetchOk(`/api/threads/${encodeURIComponent(thread.id)}/export?format=${format}`, {});
  downloadFile(await response.blob(), `${fileName(threadTitle(thread))}${FILE_EXTENSIONS[format]}`);
}

/** A title as a file name that is valid on every system. */
export function fileName(title: string): string {
  const name = title
    .normalize('NFKC')
    .replaceAll(/[^\p{L}\p{N} _-]+/gu, ' ')
    .replaceAll(/\s+/g, ' ')
    .trim();
  return name.slice(0, 60).trim() || 'thread';
}

function downloadFile(blob: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/**
 * Path of a thread, in its cell if it belongs to a board. Needs the board, because a thread's row does not say its
 * cell.
 */
export function threadPath(thread: string, board: Pick<Board, 'id' | 'cells'> | undefined): string {
  const cell = board?.cells.find((candidate) => candidate.thread === thread);
  return board && cell
    ? `/play/${board.id}?cell=${encodeURIComponent(`${cell.row}.${cell.column}`)}`
    : `/play/${thread}`;
}

/** The thread that a path shows, if any. */
export function threadFromPath(
  id: string | undefined,
  cell: string | null,
  board: Pick<Board, 'cells'> | undefined,
): string | null {
  if (id?.startsWith('conv_')) return id;
  if (!cell) return null;
  return board?.cells.find((candidate) => `${candidate.row}.${candidate.column}` === cell)?.thread ?? null;
}

export const threadPagesQuery = (search: string) =>
  infiniteQueryOptions({
    queryKey: ['threads', 'pages', search],
    queryFn: ({ pageParam, signal }) =>
      api('get', '/api/threads', { query: { search, after: pageParam, limit: 40 }, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
    placeholderData: keepPreviousData,
  });

export const pinnedThreadsQuery = () =>
  queryOptions({
    queryKey: ['threads', 'pinned'],
    queryFn: ({ signal }) => api('get', '/api/threads', { query: { pinned: true, limit: 100 }, signal }),
  });

export const boardQuery = (id: string) =>
  queryOptions({
    queryKey: ['board', id],
    queryFn: ({ signal }) => api('get', '/api/boards/{board}', { path: { board: id }, signal }),
  });
