/** What the page of a trace reads. Names in a record are strangers': answers are kept as they were parsed, never merged. */
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import { ApiError, api, type Schemas } from '@/api/client';

export type Summary = Schemas['TraceView'];
export type Span = Schemas['Record'];
export type Part = Schemas['Piece']['part'];

/** How often a trace that is not whole yet is looked at again, in milliseconds; and for how long. */
const AGAIN = 3000;
const FOR = 10 * 60_000;

/** Has its root not ended yet? Spans are stored when they end, those inside first: the one that stands for it names a parent. */
export const isRunning = ({ root }: Pick<Summary, 'root'>, now = Date.now()): boolean => root.parent_id !== null && now - Date.parse(root.start) < FOR;

export const summary = (trace: string) =>
  queryOptions({
    queryKey: ['trace', trace, 'summary'],
    queryFn: ({ signal }) => api('get', '/api/traces/{trace}', { path: { trace }, signal }),
    refetchInterval: ({ state: { data, error } }) =>
      (data && isRunning(data)) || (error instanceof ApiError && error.status === 404) ? AGAIN : false,
  });

/** Spans that are drawn at most. */
export const MOST_SPANS = 100_000;

export const skeleton = (trace: string) =>
  infiniteQueryOptions({
    queryKey: ['trace', trace, 'skeleton'],
    queryFn: ({ pageParam, signal }) => api('get', '/api/traces/{trace}/skeleton', { path: { trace }, query: { limit: 5000, after: pageParam }, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: (last, pages) => (pages.length * 5000 >= MOST_SPANS ? null : (last.next ?? null)),
    structuralSharing: false,
  });

export const conversation = (trace: string, whole: boolean) =>
  queryOptions({
    queryKey: ['trace', trace, 'conversation', whole],
    queryFn: ({ signal }) => api('get', '/api/traces/{trace}/conversation', { path: { trace }, query: { whole }, signal }),
    structuralSharing: false,
  });

export const span = (trace: string, id: string) =>
  queryOptions({
    queryKey: ['trace', trace, 'span', id],
    // With no part asked for, the answer is the record.
    queryFn: async ({ signal }) => (await api('get', '/api/spans/{trace}/{span}', { path: { trace, span: id }, signal })) as Span,
    structuralSharing: false,
  });

/** The spans of a trace in whose texts these words are. */
export const holding = (trace: string, words: string) =>
  queryOptions({
    queryKey: ['trace', trace, 'holding', words],
    queryFn: async ({ signal }) => {
      const filter = { field: 'trace_id', op: 'eq', value: trace };
      const found = await api('post', '/api/spans/query', { body: { filter, search: words, limit: 200 } as never, signal });
      return found.data.map(({ span_id: id }) => id);
    },
    enabled: words !== '',
    retry: false,
  });
