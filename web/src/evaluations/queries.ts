/** What the pages of evaluations ask the server. Keys are stale when an evaluation changed (api/queries.ts). */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from '@tanstack/react-query';
import { api, type Answer, type Schemas } from '@/api/client';
import { isOpen } from './words';

export type EvaluationRow = Schemas['EvaluationRow'];
export type Evaluation = Schemas['EvaluationView'];
export type Summary = Schemas['EvaluationSummary'];
export type Evaluator = Schemas['EvaluatorView'];
export type ScoreView = Schemas['ScoreView'];
export type NamedColumn = Schemas['ColumnView'];

/** While something runs the list is looked at again, in milliseconds: notices tell only of beginnings and ends. */
const AGAIN = 2000;

type Page = Answer<'/api/evaluations', 'get'>;
export const evaluationPages = (search: string, testset: string | null) =>
  infiniteQueryOptions({
    queryKey: ['evaluations', search, testset],
    queryFn: ({ pageParam, signal }) => api('get', '/api/evaluations', { query: { search, testset, limit: 50, after: pageParam }, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }: Page) => next ?? null,
    placeholderData: keepPreviousData,
    refetchInterval: ({ state: { data } }) => (data?.pages.some((page) => page.data.some((row) => isOpen(row.state))) ? AGAIN : false),
  });

/** Others of the same set, to compare with. */
export const ofTestset = (testset: string) =>
  queryOptions({
    queryKey: ['evaluations', 'of', testset],
    queryFn: ({ signal }) => api('get', '/api/evaluations', { query: { testset, limit: 50 }, signal }),
  });

export const evaluation = (id: string) =>
  queryOptions({ queryKey: ['evaluation', id], queryFn: ({ signal }) => api('get', '/api/evaluations/{evaluation}', { path: { evaluation: id }, signal }) });

export const summary = (id: string, slice: string | null) =>
  queryOptions({
    queryKey: ['evaluation', id, 'summary', slice],
    queryFn: ({ signal }) => api('get', '/api/evaluations/{evaluation}/summary', { path: { evaluation: id }, query: { slice }, signal }),
    placeholderData: keepPreviousData,
  });

/** The same for the list: asked of each row once, and again when it has come further. */
export const glance = ({ id, done, failed }: Pick<EvaluationRow, 'id' | 'done' | 'failed'>) =>
  queryOptions({
    queryKey: ['evaluation-glance', id, done + failed],
    queryFn: ({ signal }) => api('get', '/api/evaluations/{evaluation}/summary', { path: { evaluation: id }, signal }),
    staleTime: Number.POSITIVE_INFINITY,
    placeholderData: keepPreviousData,
    retry: false,
  });

export const evaluators = () =>
  queryOptions({ queryKey: ['evaluators'], queryFn: ({ signal }) => api('get', '/api/evaluators', { signal }), staleTime: 300_000 });

/** Test sets to choose from. */
export const someTestsets = (search: string) =>
  queryOptions({
    queryKey: ['testsets', 'some', search],
    queryFn: ({ signal }) => api('get', '/api/testsets', { query: { search, limit: 200 }, signal }),
    placeholderData: keepPreviousData,
  });

export const testsetNamed = (id: string) =>
  queryOptions({ queryKey: ['testset', id, 'for-evaluation'], queryFn: ({ signal }) => api('get', '/api/testsets/{testset}', { path: { testset: id }, signal }) });

export const revisionsOf = (id: string) =>
  queryOptions({
    queryKey: ['testset', id, 'revisions-for-evaluation'],
    queryFn: ({ signal }) => api('get', '/api/testsets/{testset}/revisions', { path: { testset: id }, query: { limit: 100 }, signal }),
  });

/** The columns of one revision. */
export const revisionOf = (id: string, revision: string) =>
  queryOptions({
    queryKey: ['testset', id, 'revision-for-evaluation', revision],
    queryFn: ({ signal }) => api('get', '/api/testsets/{testset}/revisions/{revision}', { path: { testset: id, revision }, signal }),
  });
