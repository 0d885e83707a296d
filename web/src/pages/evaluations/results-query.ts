/** What is asked of the results of an evaluation, as the address says it. Pure. */
export interface ResultsQuery {
  search: string;
  variant: string | null;
  evaluator: string | null;
  passed: boolean | null;
  status: 'done' | 'failed' | 'error' | null;
  flaky: boolean;
  /** The cell that is looked at. */
  cell: string | null;
  /** A column: figures by its values. */
  slice: string | null;
}

/** To ask something else is to go there; `replace`: no step that Back takes back. */
export type SetResultsQuery = (asked: ResultsQuery, options?: { replace?: boolean }) => void;

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

/** The same again; what is not asked for is not there. */
export function resultsQueryParams(asked: ResultsQuery): URLSearchParams {
  const params = new URLSearchParams();
  const say = (name: string, value: string | null | false) => value && params.set(name, value);
  say('q', asked.search);
  say('variant', asked.variant);
  say('evaluator', asked.evaluator);
  say('passed', asked.passed === null ? null : asked.passed ? 'yes' : 'no');
  say('status', asked.status);
  say('flaky', asked.flaky && 'yes');
  say('slice', asked.slice);
  say('cell', asked.cell);
  return params;
}

/** Is any cell left out? */
export const isFiltered = ({ search, variant, evaluator, passed, status, flaky }: ResultsQuery): boolean =>
  Boolean(search || variant || evaluator || status || flaky || passed !== null);
