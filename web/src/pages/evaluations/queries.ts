/** Queries of the evaluation pages. */
import { infiniteQueryOptions, keepPreviousData, queryOptions } from '@tanstack/react-query';
import { api, type ResponseBody, type Schemas } from '@/api/client';
import { parseSide } from './compare/comparison';
import { isActive } from './format';

export type EvaluationRow = Schemas['EvaluationRow'];
export type Evaluation = Schemas['EvaluationView'];
export type Summary = Schemas['EvaluationSummary'];
export type Evaluator = Schemas['EvaluatorView'];
export type ScoreView = Schemas['ScoreView'];
export type TestsetColumn = Schemas['ColumnView'];

/** Notices announce only starts and ends, so poll while something runs. */
const REFRESH_INTERVAL_MS = 2000;

type EvaluationPage = ResponseBody<'/api/evaluations', 'get'>;
export const evaluationPagesQuery = (search: string, testset: string | null) =>
  infiniteQueryOptions({
    queryKey: ['evaluations', search, testset],
    queryFn: ({ pageParam, signal }) =>
      api('get', '/api/evaluations', { query: { search, testset, limit: 50, after: pageParam }, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }: EvaluationPage) => next ?? null,
    placeholderData: keepPreviousData,
    refetchInterval: ({ state: { data } }) =>
      data?.pages.some((page) => page.data.some((row) => isActive(row.state))) ? REFRESH_INTERVAL_MS : false,
  });

/** Evaluations of the same test set, to compare with. */
export const evaluationsOfTestsetQuery = (testset: string) =>
  queryOptions({
    queryKey: ['evaluations', 'of', testset],
    queryFn: ({ signal }) => api('get', '/api/evaluations', { query: { testset, limit: 50 }, signal }),
  });

export const evaluationQuery = (id: string) =>
  queryOptions({
    queryKey: ['evaluation', id],
    queryFn: ({ signal }) => api('get', '/api/evaluations/{evaluation}', { path: { evaluation: id }, signal }),
  });

export const evaluationSummaryQuery = (id: string, slice: string | null) =>
  queryOptions({
    queryKey: ['evaluation', id, 'summary', slice],
    queryFn: ({ signal }) =>
      api('get', '/api/evaluations/{evaluation}/summary', { path: { evaluation: id }, query: { slice }, signal }),
    placeholderData: keepPreviousData,
  });

/** Summary for a row of the list; keyed by progress, so it is fetched again when there are more results. */
export const listSummaryQuery = ({ id, done, failed }: Pick<EvaluationRow, 'id' | 'done' | 'failed'>) =>
  queryOptions({
    queryKey: ['evaluation-glance', id, done + failed],
    queryFn: ({ signal }) => api('get', '/api/evaluations/{evaluation}/summary', { path: { evaluation: id }, signal }),
    staleTime: Number.POSITIVE_INFINITY,
    placeholderData: keepPreviousData,
    retry: false,
  });

export const evaluatorsQuery = () =>
  queryOptions({
    queryKey: ['evaluators'],
    queryFn: ({ signal }) => api('get', '/api/evaluators', { signal }),
    staleTime: 300_000,
  });

/** Test sets to choose from. */
export const testsetsSearchQuery = (search: string) =>
  queryOptions({
    queryKey: ['testsets', 'some', search],
    queryFn: ({ signal }) => api('get', '/api/testsets', { query: { search, limit: 200 }, signal }),
    placeholderData: keepPreviousData,
  });

export const testsetQuery = (id: string) =>
  queryOptions({
    queryKey: ['testset', id, 'for-evaluation'],
    queryFn: ({ signal }) => api('get', '/api/testsets/{testset}', { path: { testset: id }, signal }),
  });

export const testsetRevisionsQuery = (id: string) =>
  queryOptions({
    queryKey: ['testset', id, 'revisions-for-evaluation'],
    queryFn: ({ signal }) =>
      api('get', '/api/testsets/{testset}/revisions', { path: { testset: id }, query: { limit: 100 }, signal }),
  });

/** Columns of one revision. */
export const testsetRevisionQuery = (id: string, revision: string) =>
  queryOptions({
    queryKey: ['testset', id, 'revision-for-evaluation', revision],
    queryFn: ({ signal }) =>
      api('get', '/api/testsets/{testset}/revisions/{revision}', { path: { testset: id, revision }, signal }),
  });

export type ResultRow = Schemas['ResultRow'];
export type Result = Schemas['ResultView'];
export type ScriptTurn = Schemas['TurnView'];
export type ResultMessage = Schemas['Message'];

type ResultPage = ResponseBody<'/api/evaluations/{evaluation}/results', 'get'>;

export const resultPagesQuery = (id: string, { search, variant, evaluator, passed, status, flaky }: ResultsQuery) => {
  const query = {
    search: search.trim(),
    variant,
    evaluator,
    status,
    ...(passed === null ? {} : { passed }),
    ...(flaky ? { flaky } : {}),
  };
  return infiniteQueryOptions({
    queryKey: ['evaluation', id, 'results', query],
    queryFn: ({ pageParam, signal }) =>
      api('get', '/api/evaluations/{evaluation}/results', {
        path: { evaluation: id },
        query: { ...query, limit: 100, after: pageParam },
        signal,
      }),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }: ResultPage) => next ?? null,
    placeholderData: keepPreviousData,
  });
};

export const resultQuery = (id: string, cell: string) =>
  queryOptions({
    queryKey: ['evaluation', id, 'result', cell],
    queryFn: ({ signal }) =>
      api('get', '/api/evaluations/{evaluation}/results/{cell}', { path: { evaluation: id, cell }, signal }),
    placeholderData: keepPreviousData,
    gcTime: 60_000,
  });

/** Messages of a value in any dialect, if it is a conversation. */
export const extractConversationQuery = (value: unknown) =>
  queryOptions({
    queryKey: ['extract', JSON.stringify(value)],
    queryFn: async ({ signal }) =>
      (await api('post', '/api/extract', { body: { value, prefer: 'output' }, signal })).conversation,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 60_000,
  });

const CELLS_PER_PAGE = 200;
/** Rows of each side in the scatter plot; figures cover all rows. */
export const MAX_CELLS = 2000;

export const comparisonQuery = (base: string, candidate: string) =>
  queryOptions({
    queryKey: ['comparison', base, candidate],
    queryFn: ({ signal }) => api('get', '/api/evaluations/compare', { query: { base, candidate }, signal }),
  });

/** Cells of one side in the order of the test set, up to MAX_CELLS. */
export const comparisonCellsQuery = (side: string) =>
  queryOptions({
    queryKey: ['comparison-cells', side],
    queryFn: async ({ signal }) => {
      const { id, variant } = parseSide(side);
      const cells: ResultRow[] = [];
      let after: string | null = null;
      do {
        const page: { data: ResultRow[]; next?: string | null } = await api(
          'get',
          '/api/evaluations/{evaluation}/results',
          { path: { evaluation: id }, query: { variant, limit: CELLS_PER_PAGE, after }, signal },
        );
        cells.push(...page.data);
        after = page.next ?? null;
      } while (after !== null && cells.length < MAX_CELLS);
      return { cells, isAll: after === null };
    },
    gcTime: 60_000,
  });

/** First page of the cells that pass on the other side but not on this one. */
export const regressionsQuery = (side: string, other: string, evaluator: string) =>
  queryOptions({
    queryKey: ['comparison-lost', side, other, evaluator],
    queryFn: ({ signal }) => {
      const { id, variant } = parseSide(side);
      return api('get', '/api/evaluations/{evaluation}/results', {
        path: { evaluation: id },
        query: { variant, evaluator, regression: other, limit: 100 },
        signal,
      });
    },
  });

/** One row of one side; the first of its repeats. */
export const comparisonRowQuery = (side: string, row: string) =>
  queryOptions({
    queryKey: ['comparison-row', side, row],
    queryFn: async ({ signal }) => {
      const { id, variant } = parseSide(side);
      const { data } = await api('get', '/api/evaluations/{evaluation}/results', {
        path: { evaluation: id },
        query: { variant, row, limit: 1 },
        signal,
      });
      return data[0] ?? null;
    },
  });

export interface ResultsQuery {
  search: string;
  variant: string | null;
  evaluator: string | null;
  passed: boolean | null;
  status: 'done' | 'failed' | 'error' | null;
  flaky: boolean;
  /** Cell that is open. */
  cell: string | null;
  /** Column to slice the summary by. */
  slice: string | null;
}

/** Navigates; `replace` adds no history entry. */
export type SetResultsQuery = (query: ResultsQuery, options?: { replace?: boolean }) => void;

/** Query of the result list, as in the URL. */
export const EMPTY_RESULTS_QUERY: ResultsQuery = {
  search: '',
  variant: null,
  evaluator: null,
  passed: null,
  status: null,
  flaky: false,
  cell: null,
  slice: null,
};

const STATUSES = ['done', 'failed', 'error'] as const;

export function parseResultsQuery(params: URLSearchParams): ResultsQuery {
  const passed = params.get('passed');
  return {
    search: params.get('q') ?? '',
    variant: params.get('variant'),
    evaluator: params.get('evaluator'),
    passed: passed === 'yes' ? true : passed === 'no' ? false : null,
    status: STATUSES.find((status) => status === params.get('status')) ?? null,
    flaky: params.get('flaky') === 'yes',
    cell: params.get('cell'),
    slice: params.get('slice'),
  };
}

/** URL parameters; defaults are left out. */
export function resultsQueryParams(query: ResultsQuery): URLSearchParams {
  const params = new URLSearchParams();
  const setParam = (name: string, value: string | null | false) => value && params.set(name, value);
  setParam('q', query.search);
  setParam('variant', query.variant);
  setParam('evaluator', query.evaluator);
  setParam('passed', query.passed === null ? null : query.passed ? 'yes' : 'no');
  setParam('status', query.status);
  setParam('flaky', query.flaky && 'yes');
  setParam('slice', query.slice);
  setParam('cell', query.cell);
  return params;
}

/** Whether any cell is filtered out. */
export const isFiltered = ({ search, variant, evaluator, passed, status, flaky }: ResultsQuery): boolean =>
  Boolean(search || variant || evaluator || status || flaky || passed !== null);
