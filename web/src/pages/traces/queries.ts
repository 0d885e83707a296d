/** Queries of the traces pages. Keys that start with `spans` are invalidated by new spans. */
import { infiniteQueryOptions, keepPreviousData, queryOptions, type InfiniteData } from '@tanstack/react-query';
import { ApiError, api, type Schemas } from '@/api/client';
import { queryClient } from '@/api/queries';
import type { RowPage } from './rows';
import { bucketSize } from './time-buckets';
import { traceQueryParams, timeBounds, queryFilter, type TraceQuery, type TimeBounds } from './trace-query';

const PAGE_SIZE = 50;
const NEWEST_ROWS = 100;

interface PageCursor {
  /** Null before the first page, which fixes the time for the others. */
  time: TimeBounds | null;
  after: string | null;
}
const FIRST_PAGE: PageCursor = { time: null, after: null };

/** Retry only if the server was unreachable; timeouts would repeat. */
const retry = (times: number, error: Error): boolean => times < 2 && error instanceof ApiError && error.status === 0;

const queryKeyOf = (query: TraceQuery): string => String(traceQueryParams(query));

async function fetchRows(
  query: TraceQuery,
  { time, after }: PageCursor,
  limit: number,
  signal: AbortSignal,
): Promise<RowPage> {
  const bounds = time ?? timeBounds(query, Date.now());
  const body = { filter: queryFilter(query), search: query.search.trim() || null, ...bounds, limit, after };
  const page =
    query.rows === 'traces'
      ? await api('post', '/api/traces/query', { body, signal })
      : await api('post', '/api/spans/query', { body, signal });
  return { data: page.data, next: page.next ?? null, time: bounds };
}

/** Pages of rows. Never refetched; `newestRowsQuery` finds new ones. */
export const rowPagesQuery = (query: TraceQuery) =>
  infiniteQueryOptions({
    queryKey: ['traces', 'rows', queryKeyOf(query)],
    queryFn: ({ pageParam, signal }) => fetchRows(query, pageParam, PAGE_SIZE, signal),
    initialPageParam: FIRST_PAGE,
    getNextPageParam: ({ next, time }: RowPage): PageCursor | null => (next === null ? null : { time, after: next }),
    staleTime: 'static',
    retry,
    placeholderData: keepPreviousData,
  });

export const newestRowsQuery = (query: TraceQuery) =>
  queryOptions({
    queryKey: ['spans', 'head', queryKeyOf(query)],
    queryFn: ({ signal }) => fetchRows(query, FIRST_PAGE, NEWEST_ROWS, signal),
    staleTime: 0,
    gcTime: 0,
    retry,
  });

/** Replace the cached pages. */
export function setRowPages(query: TraceQuery, pages: readonly RowPage[]): void {
  queryClient.setQueryData(rowPagesQuery(query).queryKey, (cached: InfiniteData<RowPage> | undefined) => ({
    pages: [...pages],
    pageParams: cached?.pageParams.slice(0, pages.length) ?? [FIRST_PAGE],
  }));
}

export const anyTraceQuery = () =>
  queryOptions({
    queryKey: ['spans', 'any'],
    queryFn: async ({ signal }) => (await api('get', '/api/traces', { query: { limit: 1 }, signal })).data.length > 0,
  });

export const traceStatsQuery = (query: TraceQuery) =>
  queryOptions({
    queryKey: ['traces', 'stats', queryKeyOf({ ...query, rows: 'traces' })],
    queryFn: async ({ signal }) => {
      const now = Date.now();
      const time = timeBounds(query, now);
      const by = bucketSize(time, now);
      const filter = queryFilter(query);
      const { data } = await api('get', '/api/traces/stats', {
        query: {
          by,
          ...time,
          search: query.search.trim(),
          ...(filter === null ? {} : { filter: JSON.stringify(filter) }),
        },
        signal,
      });
      return { data, time, by, now };
    },
    staleTime: 'static',
    gcTime: 0,
    retry,
  });

/** Conversation of a trace or of one span. */
export const traceThreadQuery = (trace: string, span: string | null) =>
  queryOptions({
    queryKey: ['traces', 'conversation', trace, span],
    queryFn: ({ signal }) =>
      api('post', '/api/traces/{trace}/thread', {
        path: { trace },
        body: span === null ? {} : { span_id: span },
        signal,
      }),
    gcTime: 60_000,
  });

/** Full record of a span, for values that are no conversation. */
export const spanRecordQuery = (trace: string, span: string) =>
  queryOptions({
    queryKey: ['traces', 'record', trace, span],
    queryFn: ({ signal }) => api('get', '/api/spans/{trace}/{span}', { path: { trace, span }, signal }),
    gcTime: 60_000,
  });

export const savedViewsQuery = () =>
  queryOptions({
    queryKey: ['views', 'traces'],
    queryFn: ({ signal }) => api('get', '/api/views', { query: { page: 'traces' }, signal }),
  });

export type Summary = Schemas['TraceView'];
export type Span = Schemas['Record'];
export type Part = Schemas['PartPiece']['part'];

/** Refresh interval while a trace is running, and for how long. */
const REFRESH_INTERVAL_MS = 3000;
const MAX_RUN_TIME_MS = 10 * 60_000;

/**
 * Whether the root has not ended. Spans are stored when they end, children first: until then the topmost one has a
 * parent id.
 */
export const isRunning = ({ root }: Pick<Summary, 'root'>, now = Date.now()): boolean =>
  root.parent_id !== null && now - Date.parse(root.start) < MAX_RUN_TIME_MS;

export const traceQuery = (trace: string) =>
  queryOptions({
    queryKey: ['trace', trace, 'summary'],
    queryFn: ({ signal }) => api('get', '/api/traces/{trace}', { path: { trace }, signal }),
    refetchInterval: ({ state: { data, error } }) =>
      (data && isRunning(data)) || (error instanceof ApiError && error.status === 404) ? REFRESH_INTERVAL_MS : false,
  });

/** More spans are not shown. */
export const MAX_SPANS = 100_000;

export const traceSkeletonQuery = (trace: string) =>
  infiniteQueryOptions({
    queryKey: ['trace', trace, 'skeleton'],
    queryFn: ({ pageParam, signal }) =>
      api('get', '/api/traces/{trace}/skeleton', { path: { trace }, query: { limit: 5000, after: pageParam }, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: (last, pages) => (pages.length * 5000 >= MAX_SPANS ? null : (last.next ?? null)),
    structuralSharing: false,
  });

export const traceConversationQuery = (trace: string, full: boolean) =>
  queryOptions({
    queryKey: ['trace', trace, 'conversation', full],
    queryFn: ({ signal }) =>
      api('get', '/api/traces/{trace}/conversation', { path: { trace }, query: { whole: full }, signal }),
    structuralSharing: false,
  });

export const spanQuery = (trace: string, id: string) =>
  queryOptions({
    queryKey: ['trace', trace, 'span', id],
    // Without a part in the query the response is the record.
    queryFn: async ({ signal }) =>
      (await api('get', '/api/spans/{trace}/{span}', { path: { trace, span: id }, signal })) as Span,
    structuralSharing: false,
  });

/** Ids of spans whose content contains the text. */
export const spansContainingQuery = (trace: string, text: string) =>
  queryOptions({
    queryKey: ['trace', trace, 'holding', text],
    queryFn: async ({ signal }) => {
      const filter = { field: 'trace_id', op: 'eq', value: trace };
      const page = await api('post', '/api/spans/query', {
        body: { filter, search: text, limit: 200 } as never,
        signal,
      });
      return page.data.map(({ span_id: id }) => id);
    },
    enabled: text !== '',
    retry: false,
  });
