/** Queries of the review pages. Polls as well, because notices may be lost. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from '@tanstack/react-query';
import { api, fetchOk, type ResponseBody, type Schemas } from '@/api/client';
import { queryClient } from '@/api/queries';

export type ReviewRow = Schemas['ReviewRow'];
export type Review = Schemas['ReviewView'];
export type ReviewProgress = Schemas['ProgressView'];
export type ReviewQuestion = Schemas['Question'];
export type ReviewItem = Schemas['ItemView'];
export type ReviewItemRow = Schemas['ItemRow'];
export type ItemContent = Schemas['ContentView'];
export type Agreement = Schemas['Agreement'];

/** Time after which unannounced answers of others may exist. */
const POLL_INTERVAL_MS = 30_000;

type ReviewPage = ResponseBody<'/api/reviews', 'get'>;
export const reviewPagesQuery = (search: string, state: string | null) =>
  infiniteQueryOptions({
    queryKey: ['reviews', search, state],
    queryFn: ({ pageParam, signal }) =>
      api('get', '/api/reviews', { query: { search, state, limit: 50, after: pageParam }, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }: ReviewPage) => next ?? null,
    placeholderData: keepPreviousData,
    refetchInterval: POLL_INTERVAL_MS,
  });

export const reviewQuery = (id: string) =>
  queryOptions({
    queryKey: ['review', id],
    queryFn: ({ signal }) => api('get', '/api/reviews/{review}', { path: { review: id }, signal }),
    refetchInterval: POLL_INTERVAL_MS,
  });

/** Progress and agreement for the list; keyed by the number of answers. */
export const reviewSummaryQuery = ({ id, answers }: Pick<ReviewRow, 'id' | 'answers'>) =>
  queryOptions({
    queryKey: ['review-glance', id, answers],
    queryFn: async ({ signal }) => {
      const path = { review: id };
      const [{ progress }, { data }] = await Promise.all([
        api('get', '/api/reviews/{review}', { path, signal }),
        api('get', '/api/reviews/{review}/agreement', { path, signal }),
      ]);
      return { progress, agreement: data };
    },
    staleTime: Number.POSITIVE_INFINITY,
    placeholderData: keepPreviousData,
    retry: false,
  });

export const agreementQuery = (id: string) =>
  queryOptions({
    queryKey: ['review', id, 'agreement'],
    queryFn: ({ signal }) => api('get', '/api/reviews/{review}/agreement', { path: { review: id }, signal }),
    refetchInterval: POLL_INTERVAL_MS,
  });

type ItemPage = ResponseBody<'/api/reviews/{review}/items', 'get'>;
export const itemPagesQuery = (id: string) =>
  infiniteQueryOptions({
    queryKey: ['review', id, 'items'],
    queryFn: ({ pageParam, signal }) =>
      api('get', '/api/reviews/{review}/items', {
        path: { review: id },
        query: { limit: 100, after: pageParam },
        signal,
      }),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }: ItemPage) => next ?? null,
  });

/** Reserves the next item, so it never refetches by itself. Returns the same item while it is reserved. */
export const nextItemQuery = (id: string, reviewer: string | null) =>
  queryOptions({
    queryKey: ['review-next', id, reviewer],
    queryFn: () => api('get', '/api/reviews/{review}/next', { path: { review: id }, query: { reviewer } }),
    staleTime: 'static',
    gcTime: 0,
    retry: false,
    refetchOnReconnect: false,
  });

/** Expected output; fetched separately in a blind review. */
export const expectedQuery = (id: string, item: string) =>
  queryOptions({
    queryKey: ['review-expected', id, item],
    queryFn: ({ signal }) =>
      api('get', '/api/reviews/{review}/items/{item}/expected', { path: { review: id, item }, signal }),
    staleTime: 'static',
    retry: false,
  });

/** Release a reserved item; also works while the tab closes. */
export function releaseItem(id: string, item: string, reviewer: string | null): void {
  const path = `/api/reviews/${encodeURIComponent(id)}/items/${encodeURIComponent(item)}/release`;
  void fetchOk(path, {
    method: 'POST',
    keepalive: true,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ reviewer }),
  }).catch(() => undefined);
}

export function invalidateReview(id: string): void {
  void queryClient.invalidateQueries({ queryKey: ['review', id] });
  void queryClient.invalidateQueries({ queryKey: ['reviews'] });
}
