/** What the traces page asks the server. Keys that begin with `spans` are stale when spans were written (api/queries.ts). */
import { infiniteQueryOptions, keepPreviousData, queryOptions, type InfiniteData } from '@tanstack/react-query';
import { ApiError, api } from '@/api/client';
import { queryClient } from '@/api/queries';
import { address, between, filterOf, type Asked, type Between } from './asked';
import { stepOf } from './buckets';
import type { RowPage } from './rows';

const SIZE = 50;
const HEAD = 100;

interface Place {
  /** Null before the first page, whose time counts for all that follow. */
  time: Between | null;
  after: string | null;
}
const START: Place = { time: null, after: null };

/** What takes too long takes too long again: only who was not heard asks once more. */
const retry = (times: number, error: Error): boolean => times < 2 && error instanceof ApiError && error.status === 0;

const named = (asked: Asked): string => String(address(asked));

async function rows(asked: Asked, { time, after }: Place, limit: number, signal: AbortSignal): Promise<RowPage> {
  const meant = time ?? between(asked, Date.now());
  const body = { filter: filterOf(asked), search: asked.search.trim() || null, ...meant, limit, after };
  const page =
    asked.rows === 'traces' ? await api('post', '/api/traces/query', { body, signal }) : await api('post', '/api/spans/query', { body, signal });
  return { data: page.data, next: page.next ?? null, time: meant };
}

/** The rows, page by page. Never asked again by themselves: `head` says what is new. */
export const rowPages = (asked: Asked) =>
  infiniteQueryOptions({
    queryKey: ['traces', 'rows', named(asked)],
    queryFn: ({ pageParam, signal }) => rows(asked, pageParam, SIZE, signal),
    initialPageParam: START,
    getNextPageParam: ({ next, time }: RowPage): Place | null => (next === null ? null : { time, after: next }),
    staleTime: 'static',
    retry,
    placeholderData: keepPreviousData,
  });

/** The newest rows, as they are now. */
export const head = (asked: Asked) =>
  queryOptions({
    queryKey: ['spans', 'head', named(asked)],
    queryFn: ({ signal }) => rows(asked, START, HEAD, signal),
    staleTime: 0,
    gcTime: 0,
    retry,
  });

/** Put pages in the place of those that are known. */
export function keepPages(asked: Asked, pages: readonly RowPage[]): void {
  queryClient.setQueryData(rowPages(asked).queryKey, (known: InfiniteData<RowPage> | undefined) => ({
    pages: [...pages],
    pageParams: known?.pageParams.slice(0, pages.length) ?? [START],
  }));
}

/** Is there any trace at all? */
export const anyTrace = () =>
  queryOptions({
    queryKey: ['spans', 'any'],
    queryFn: async ({ signal }) => (await api('get', '/api/traces', { query: { limit: 1 }, signal })).data.length > 0,
  });

export const stats = (asked: Asked) =>
  queryOptions({
    queryKey: ['traces', 'stats', named({ ...asked, rows: 'traces' })],
    queryFn: async ({ signal }) => {
      const now = Date.now();
      const time = between(asked, now);
      const by = stepOf(time, now);
      const filter = filterOf(asked);
      const { data } = await api('get', '/api/traces/stats', {
        query: { by, ...time, search: asked.search.trim(), ...(filter === null ? {} : { filter: JSON.stringify(filter) }) },
        signal,
      });
      return { data, time, by, now };
    },
    staleTime: 'static',
    gcTime: 0,
    retry,
  });

/** The whole conversation of a trace, or of one of its spans. */
export const conversation = (trace: string, span: string | null) =>
  queryOptions({
    queryKey: ['traces', 'conversation', trace, span],
    queryFn: ({ signal }) => api('post', '/api/traces/{trace}/thread', { path: { trace }, body: span === null ? {} : { span_id: span }, signal }),
    gcTime: 60_000,
  });

/** All of a span: what went in and came out, when that is no conversation. */
export const record = (trace: string, span: string) =>
  queryOptions({
    queryKey: ['traces', 'record', trace, span],
    queryFn: ({ signal }) => api('get', '/api/spans/{trace}/{span}', { path: { trace, span }, signal }),
    gcTime: 60_000,
  });

export const views = () =>
  queryOptions({ queryKey: ['views', 'traces'], queryFn: ({ signal }) => api('get', '/api/views', { query: { page: 'traces' }, signal }) });
