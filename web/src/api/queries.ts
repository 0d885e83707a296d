/** Shared queries and the query client. Notices of the socket invalidate them. */
import { QueryClient, queryOptions } from '@tanstack/react-query';
import { ApiError, api, type Schemas } from './client';
import type { Notice } from './socket';
import { socket } from './stream-fetch';

export const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 30_000,
      refetchOnWindowFocus: false,
      retry: (times, error) => times < 2 && !(error instanceof ApiError && error.status >= 400 && error.status < 500),
    },
  },
});

export const workflowsQuery = () =>
  queryOptions({
    queryKey: ['workflows'],
    queryFn: ({ signal }) => api('get', '/api/workflows', { query: { limit: 200 }, signal }),
  });

export const workflowQuery = (name: string) =>
  queryOptions({
    queryKey: ['workflow', name],
    queryFn: ({ signal }) => api('get', '/api/workflows/{name}', { path: { name }, signal }),
  });

export const variantsQuery = (name: string) =>
  queryOptions({
    queryKey: ['variants', name],
    queryFn: ({ signal }) => api('get', '/api/workflows/{workflow}/variants', { path: { workflow: name }, signal }),
  });

export const boardsQuery = () =>
  queryOptions({
    queryKey: ['boards'],
    queryFn: ({ signal }) => api('get', '/api/boards', { query: { limit: 50 }, signal }),
  });

export const threadQuery = (id: string) =>
  queryOptions({
    queryKey: ['thread', id],
    queryFn: ({ signal }) => api('get', '/api/threads/{thread}', { path: { thread: id }, signal }),
  });

export const runQuery = (id: string) =>
  queryOptions({
    queryKey: ['run', id],
    queryFn: ({ signal }) =>
      api('get', '/api/runs/{run}', { path: { run: id }, query: { include: 'input,reply' }, signal }),
  });

/** The query keys that a notice invalidates. */
export function staleKeys(notice: Notice): readonly (readonly string[])[] {
  switch (notice.changed) {
    case 'thread':
      return [['thread', notice.ref], ['threads']];
    case 'run':
      return [['run', notice.ref]];
    case 'board':
      return [['board', notice.ref], ['boards']];
    case 'spans':
      return [['spans']];
    case 'variant':
      return [['variants'], ['variant', notice.ref]];
    case 'testset':
      return [['testsets'], ['testset', notice.ref]];
    case 'evaluation':
      return [['evaluations'], ['evaluation', notice.ref]];
    case 'review':
      return [['reviews'], ['review', notice.ref]];
    case 'rule':
      return [['rules'], ['rule', notice.ref]];
    case 'workflow':
      return [['workflows'], ['workflow', notice.ref]];
    default:
      return [];
  }
}

/** Used while there is no socket to bring notices. */
const POLL_INTERVAL_MS = 5000;

/**
 * Invalidate queries when the server announces changes, and all of them after a lost connection. Returns the
 * unsubscriber.
 */
export function watchForChanges(): () => void {
  const stale = new Map<string, readonly string[]>();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let pollTimer: ReturnType<typeof setInterval> | undefined;
  const refresh = () => {
    timer = undefined;
    for (const queryKey of stale.values()) void queryClient.invalidateQueries({ queryKey });
    stale.clear();
  };
  const unsubscribe = socket.listen(
    (notice) => {
      // Several cells that answer send many notices at once; refetch a list once.
      for (const queryKey of staleKeys(notice)) stale.set(queryKey.join(' '), queryKey);
      timer ??= setTimeout(refresh, 300);
    },
    (connected) => {
      if (connected && pollTimer) void queryClient.invalidateQueries();
      clearInterval(pollTimer);
      pollTimer = connected ? undefined : setInterval(() => void queryClient.invalidateQueries(), POLL_INTERVAL_MS);
    },
  );
  return () => {
    unsubscribe();
    clearTimeout(timer);
    clearInterval(pollTimer);
  };
}

/** The first response that the page needs; index.html requests it before any script runs. */
export type Bootstrap = Schemas['Bootstrap'];

export const bootstrapQuery = () =>
  queryOptions({
    queryKey: ['bootstrap'],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: async ({ signal }) => {
      const response = await api('get', '/api/bootstrap', { signal });
      if (!response.workflows.next) queryClient.setQueryData(workflowsQuery().queryKey, response.workflows);
      return response;
    },
  });
