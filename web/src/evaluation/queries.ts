/** What the page of one evaluation asks the server. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from '@tanstack/react-query';
import { api, type Answer, type Schemas } from '@/api/client';
import type { Asked } from './asked';

export type ResultRow = Schemas['ResultRow'];
export type Result = Schemas['ResultView'];
export type Turn = Schemas['TurnView'];
export type Said = Schemas['Message'];

type Page = Answer<'/api/evaluations/{evaluation}/results', 'get'>;

export const resultPages = (id: string, { search, variant, evaluator, passed, status, flaky }: Asked) => {
  const query = { search: search.trim(), variant, evaluator, status, ...(passed === null ? {} : { passed }), ...(flaky ? { flaky } : {}) };
  return infiniteQueryOptions({
    queryKey: ['evaluation', id, 'results', query],
    queryFn: ({ pageParam, signal }) =>
      api('get', '/api/evaluations/{evaluation}/results', { path: { evaluation: id }, query: { ...query, limit: 100, after: pageParam }, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }: Page) => next ?? null,
    placeholderData: keepPreviousData,
  });
};

export const result = (id: string, cell: string) =>
  queryOptions({
    queryKey: ['evaluation', id, 'result', cell],
    queryFn: ({ signal }) => api('get', '/api/evaluations/{evaluation}/results/{cell}', { path: { evaluation: id, cell }, signal }),
    placeholderData: keepPreviousData,
    gcTime: 60_000,
  });

/** A value of any dialect as messages, where it is a conversation. */
export const conversationIn = (value: unknown) =>
  queryOptions({
    queryKey: ['extract', JSON.stringify(value)],
    queryFn: async ({ signal }) => (await api('post', '/api/extract', { body: { value, prefer: 'output' }, signal })).conversation,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
  });
