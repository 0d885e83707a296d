/**
 * Queries and formatting of online rules. Polls as well: notices don't cover other processes on the same database.
 */
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import { api, type ResponseBody, type Schemas } from '@/api/client';
import { isObject } from '@/components/forms/json-schema';
import { conditionText, OPS, type Condition } from '@/pages/traces/trace-query';

export type Rule = Schemas['LiveEvaluatorView'];
export type RuleStats = Schemas['LiveEvaluatorStats'];

const POLL_INTERVAL_MS = 10_000;
export const STATS_DAYS = 7;
const DAY_MS = 86_400_000;

type RulePage = ResponseBody<'/api/online', 'get'>;
export const rulePagesQuery = () =>
  infiniteQueryOptions({
    queryKey: ['rules'],
    queryFn: ({ pageParam, signal }) => api('get', '/api/online', { query: { limit: 50, after: pageParam }, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }: RulePage) => next ?? null,
  });

/** Statistics of the last days and the current backlog. */
export const ruleStatsQuery = (rule: string) =>
  queryOptions({
    queryKey: ['rule', rule, 'stats'],
    queryFn: ({ signal }) =>
      api('get', '/api/online/{rule}/stats', {
        path: { rule },
        query: { by: 'day', from: new Date(Date.now() - STATS_DAYS * DAY_MS).toISOString() },
        signal,
      }),
    refetchInterval: POLL_INTERVAL_MS,
  });

/** `Status is error and Model contains gpt`; filters that the form cannot express are shown as JSON. */
export function formatFilter(filter: Rule['filter']): string {
  if (filter === null || Object.keys(filter).length === 0) return 'All traces';
  const isAny = Array.isArray(filter['or']);
  const leaves = isAny ? filter['or'] : Array.isArray(filter['and']) ? filter['and'] : [filter];
  const conditions = (leaves as unknown[]).map(formatCondition);
  return conditions.every((leaf) => leaf !== null) ? conditions.join(isAny ? ' or ' : ' and ') : JSON.stringify(filter);
}

function formatCondition(leaf: unknown): string | null {
  if (!isObject(leaf)) return null;
  const of: Condition['of'] = typeof leaf['attribute'] === 'string' ? 'attribute' : 'field';
  const name = leaf[of];
  const op = OPS.find((known) => known === leaf['op']);
  if (typeof name !== 'string' || !op) return null;
  const value = Array.isArray(leaf['value'])
    ? leaf['value'].map(String).join(', ')
    : leaf['value'] === undefined
      ? ''
      : String(leaf['value']);
  const { subject, verb, value: shownValue } = conditionText({ of, name, op, value });
  return [subject, verb, shownValue].filter(Boolean).join(' ');
}

/** `10%`, `0.5%` */
export const formatSample = (sample: number): string => `${Number((sample * 100).toPrecision(3))}%`;

export interface EvaluatorTotal {
  evaluator: string;
  n: number;
  /** Null: the evaluator has no pass or fail. */
  passRate: number | null;
  mean: number | null;
  skipped: number;
  errors: number;
}

/** Totals by evaluator over the whole period. */
export function evaluatorTotals(data: RuleStats['data']): EvaluatorTotal[] {
  return [...new Set(data.map(({ evaluator }) => evaluator))].map((evaluator) => {
    const ownStats = data.filter((stat) => stat.evaluator === evaluator);
    const sum = (field: 'n' | 'skipped' | 'errors') => ownStats.reduce((total, stat) => total + stat[field], 0);
    return {
      evaluator,
      n: sum('n'),
      passRate: weightedMean(ownStats.map(({ pass_rate: value, n }) => ({ value, n }))),
      mean: weightedMean(ownStats.map(({ mean: value, n }) => ({ value, n }))),
      skipped: sum('skipped'),
      errors: sum('errors'),
    };
  });
}

/** Mean weighted by number of scores. */
function weightedMean(values: readonly { value: number | null; n: number }[]): number | null {
  let sum = 0;
  let count = 0;
  for (const { value, n } of values) {
    if (value === null) continue;
    sum += value * n;
    count += n;
  }
  return count > 0 ? sum / count : null;
}
