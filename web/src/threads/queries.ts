/** What the list of threads asks for. Notices of any thread make all of it stale (api/queries.ts). */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from '@tanstack/react-query';
import { api } from '@/api/client';

export const threadPages = (search: string) =>
  infiniteQueryOptions({
    queryKey: ['threads', 'pages', search],
    queryFn: ({ pageParam, signal }) => api('get', '/api/threads', { query: { search, after: pageParam, limit: 40 }, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: (page) => page.next,
    placeholderData: keepPreviousData,
  });

export const pinnedThreads = () =>
  queryOptions({
    queryKey: ['threads', 'pinned'],
    queryFn: ({ signal }) => api('get', '/api/threads', { query: { pinned: true, limit: 100 }, signal }),
  });

export const board = (id: string) =>
  queryOptions({ queryKey: ['board', id], queryFn: ({ signal }) => api('get', '/api/boards/{board}', { path: { board: id }, signal }) });
