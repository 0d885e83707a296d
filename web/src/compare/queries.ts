/** What the comparison asks the server: the verdicts, and the rows of both sides. */
import { queryOptions } from '@tanstack/react-query';
import { api } from '@/api/client';
import type { ResultRow } from '@/evaluation/queries';
import { split } from './pairing';

const PAGE = 200;
/** Rows of each side that the picture shows; figures are of all of them. */
export const MOST = 2000;

export const comparison = (base: string, candidate: string) =>
  queryOptions({
    queryKey: ['comparison', base, candidate],
    queryFn: ({ signal }) => api('get', '/api/evaluations/compare', { query: { base, candidate }, signal }),
  });

/** The cells of one side, in the order of the set; not all of very many. */
export const cellsOf = (side: string) =>
  queryOptions({
    queryKey: ['comparison-cells', side],
    queryFn: async ({ signal }) => {
      const { id, variant } = split(side);
      const cells: ResultRow[] = [];
      let after: string | null = null;
      do {
        const page: { data: ResultRow[]; next?: string | null } = await api('get', '/api/evaluations/{evaluation}/results', { path: { evaluation: id }, query: { variant, limit: PAGE, after }, signal });
        cells.push(...page.data);
        after = page.next ?? null;
      } while (after !== null && cells.length < MOST);
      return { cells, isAll: after === null };
    },
    gcTime: 60_000,
  });

/** Cells of rows that pass on the other side and not on this one, all of them, page by page of this size. */
export const lostOn = (side: string, other: string, evaluator: string) =>
  queryOptions({
    queryKey: ['comparison-lost', side, other, evaluator],
    queryFn: ({ signal }) => {
      const { id, variant } = split(side);
      return api('get', '/api/evaluations/{evaluation}/results', { path: { evaluation: id }, query: { variant, evaluator, regression: other, limit: 100 }, signal });
    },
  });

/** One row of one side; of several repeats the first. */
export const cellOfRow = (side: string, row: string) =>
  queryOptions({
    queryKey: ['comparison-row', side, row],
    queryFn: async ({ signal }) => {
      const { id, variant } = split(side);
      const { data } = await api('get', '/api/evaluations/{evaluation}/results', { path: { evaluation: id }, query: { variant, row, limit: 1 }, signal });
      return data[0] ?? null;
    },
  });
