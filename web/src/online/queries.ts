/** What the page of online rules asks the server. It is told of scores, but not of those of another process on the same file: so it also looks now and then. */
import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query';
import { api, type Answer, type Schemas } from '@/api/client';

export type Rule = Schemas['RuleView'];
export type Stats = Schemas['RuleStats'];

const AGAIN = 10_000;
export const DAYS = 7;
const DAY = 86_400_000;

type Page = Answer<'/api/online', 'get'>;
export const rulePages = () =>
  infiniteQueryOptions({
    queryKey: ['rules'],
    queryFn: ({ pageParam, signal }) => api('get', '/api/online', { query: { limit: 50, after: pageParam }, signal }),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }: Page) => next ?? null,
  });

/** Of the last days, and what waits now. */
export const ruleStats = (rule: string) =>
  queryOptions({
    queryKey: ['rule', rule, 'stats'],
    queryFn: ({ signal }) => api('get', '/api/online/{rule}/stats', { path: { rule }, query: { by: 'day', from: new Date(Date.now() - DAYS * DAY).toISOString() }, signal }),
    refetchInterval: AGAIN,
  });
