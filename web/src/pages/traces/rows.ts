/** Rows of the traces table as pages, and how new rows enter them. */
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useEffect, useEffectEvent, useMemo } from 'react';
import type { Schemas } from '@/api/client';
import { newestRowsQuery, setRowPages, rowPagesQuery } from './queries';
import type { TimeBounds, TraceQuery } from './query';

/** A trace, or a span without a span count. */
export type TraceRow = Schemas['SpanRow'] & Partial<Pick<Schemas['TraceRow'], 'spans' | 'errors'>>;

export interface RowPage {
  data: readonly TraceRow[];
  next: string | null;
  /** Time bounds of the query; later pages use the same. */
  time: TimeBounds;
}

/** Stable id; a trace's row may come to show another span. */
export const rowId = (row: TraceRow): string =>
  row.spans === undefined ? `${row.trace_id}/${row.span_id}` : row.trace_id;

export const rowPath = (row: TraceRow): string =>
  `/traces/${row.trace_id}${row.spans === undefined ? `?span=${row.span_id}` : ''}`;

export interface AbsorbResult {
  pages: readonly RowPage[];
  added: number;
  /** Whether all rows of the newest page are new, so that there may be a gap; then only that page is kept. */
  replaced: boolean;
}

/** Merge the newest page into the known pages. */
export function absorbRows(pages: readonly RowPage[], head: RowPage): AbsorbResult {
  const known = new Set(pages.flatMap(({ data }) => data.map(rowId)));
  const added = head.data.filter((row) => !known.has(rowId(row)));
  if (known.size > 0 && added.length === head.data.length && head.next !== null)
    return { pages: [head], added: added.length, replaced: true };
  if (known.size === 0) return { pages: [head], added: added.length, replaced: false };
  const changed = new Map(head.data.map((row) => [rowId(row), row]));
  let left = added;
  const merged = pages.map((page, place) => {
    const last = page.data.at(-1);
    const here = place === pages.length - 1 || !last ? left : left.filter((row) => isBefore(row, last));
    left = left.filter((row) => !here.includes(row));
    if (here.length === 0 && !page.data.some((row) => changed.has(rowId(row)))) return page;
    const data = page.data.map((row) => changed.get(rowId(row)) ?? row);
    return { ...page, data: here.length > 0 ? inOrder([...data, ...here]) : data };
  });
  return { pages: merged, added: added.length, replaced: false };
}

/** Update known rows without moving anything. */
export function refreshRows(pages: readonly RowPage[], head: RowPage): readonly RowPage[] {
  const known = new Set(pages.flatMap(({ data }) => data.map(rowId)));
  return absorbRows(pages, { ...head, next: null, data: head.data.filter((row) => known.has(rowId(row))) }).pages;
}

const inOrder = (rows: readonly TraceRow[]): TraceRow[] =>
  rows.toSorted((one, other) => (isBefore(one, other) ? -1 : 1));

/** Newest first. Compares strings: all times have the same format. */
const isBefore = (one: TraceRow, other: TraceRow): boolean =>
  one.start === other.start ? one.span_id > other.span_id : one.start > other.start;

/** Rows and new arrivals. At the top new rows appear at once; otherwise they wait, so that nothing moves. */
export interface LiveRows {
  rows: readonly TraceRow[];
  waiting: boolean;
  /** Rows of the previous query while this one loads. */
  old: boolean;
  error: Error | null;
  more: boolean;
  /** Whether the next page failed to load. */
  cut: boolean;
  fetching: boolean;
  fetchMore: () => void;
  retry: () => void;
  /** Number of waiting rows; `many` if there may be more. */
  fresh: { count: number; many: boolean };
  /** Show the waiting rows. */
  take: () => void;
  /** Check for new rows now. */
  look: () => Promise<void>;
}

export function useLiveRows(query: TraceQuery, live: boolean, following: boolean): LiveRows {
  const pages = useInfiniteQuery(rowPagesQuery(query));
  const ready = pages.data !== undefined && !pages.isPlaceholderData;
  const known = ready ? pages.data.pages : null;
  // An empty table shows the first row at once; so does a table on return from another page.
  const empty = known !== null && known.every(({ data }) => data.length === 0);
  const newest = useQuery({
    ...newestRowsQuery(query),
    enabled: ready && (live || empty || !pages.isFetchedAfterMount),
  });
  const next = useMemo(() => (known && newest.data ? absorbRows(known, newest.data) : null), [known, newest.data]);
  const came = useEffectEvent(({ pages: all, added }: AbsorbResult, letIn: boolean) => {
    if (known && newest.data) setRowPages(query, letIn || added === 0 ? all : refreshRows(known, newest.data));
  });
  useEffect(() => {
    if (next) came(next, following); // Structural sharing keeps unchanged rows, so this converges.
  }, [next, following]);
  const rows = useMemo(() => pages.data?.pages.flatMap(({ data }) => data) ?? [], [pages.data]);
  return {
    rows,
    waiting: pages.data === undefined && !pages.error,
    old: pages.isPlaceholderData,
    error: pages.error ?? (live ? newest.error : null),
    more: pages.hasNextPage && !pages.isPlaceholderData && !pages.error,
    cut: pages.isFetchNextPageError,
    fetching: pages.isFetching,
    fetchMore: () => void pages.fetchNextPage(),
    retry: () =>
      void (pages.data === undefined
        ? pages.refetch()
        : pages.isFetchNextPageError
          ? pages.fetchNextPage()
          : newest.refetch()),
    fresh: { count: next?.added ?? 0, many: next?.replaced ?? false },
    take: () => {
      if (next) setRowPages(query, next.pages);
    },
    look: async () => {
      const { error } = await newest.refetch();
      if (error) throw error;
    },
  };
}
