/** Query of the result list, as in the URL. */
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
    status: STATUSES.find((one) => one === params.get('status')) ?? null,
    flaky: params.get('flaky') === 'yes',
    cell: params.get('cell'),
    slice: params.get('slice'),
  };
}

/** URL parameters; defaults are left out. */
export function resultsQueryParams(query: ResultsQuery): URLSearchParams {
  const params = new URLSearchParams();
  const say = (name: string, value: string | null | false) => value && params.set(name, value);
  say('q', query.search);
  say('variant', query.variant);
  say('evaluator', query.evaluator);
  say('passed', query.passed === null ? null : query.passed ? 'yes' : 'no');
  say('status', query.status);
  say('flaky', query.flaky && 'yes');
  say('slice', query.slice);
  say('cell', query.cell);
  return params;
}

/** Whether any cell is filtered out. */
export const isFiltered = ({ search, variant, evaluator, passed, status, flaky }: ResultsQuery): boolean =>
  Boolean(search || variant || evaluator || status || flaky || passed !== null);
