/** Rows of the traces table as pages, and how new rows enter them. */
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useEffect, useEffectEvent, useMemo } from 'react';
import type { Schemas } from '@/api/client';
import { newestRowsQuery, setRowPages, rowPagesQuery } from './queries';
import type { TimeBounds, TraceQuery } from './trace-query';

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
  const knownIds = new Set(pages.flatMap(({ data }) => data.map(rowId)));
  const added = head.data.filter((row) => !knownIds.has(rowId(row)));
  if (knownIds.size > 0 && added.length === head.data.length && head.next !== null)
    return { pages: [head], added: added.length, replaced: true };
  if (knownIds.size === 0) return { pages: [head], added: added.length, replaced: false };
  const changed = new Map(head.data.map((row) => [rowId(row), row]));
  let remaining = added;
  const merged = pages.map((page, index) => {
    const last = page.data.at(-1);
    const newOnPage = index === pages.length - 1 || !last ? remaining : remaining.filter((row) => isBefore(row, last));
    remaining = remaining.filter((row) => !newOnPage.includes(row));
    if (newOnPage.length === 0 && !page.data.some((row) => changed.has(rowId(row)))) return page;
    const data = page.data.map((row) => changed.get(rowId(row)) ?? row);
    return { ...page, data: newOnPage.length > 0 ? sortRows([...data, ...newOnPage]) : data };
  });
  return { pages: merged, added: added.length, replaced: false };
}

/** Update known rows without moving anything. */
export function refreshRows(pages: readonly RowPage[], head: RowPage): readonly RowPage[] {
  const knownIds = new Set(pages.flatMap(({ data }) => data.map(rowId)));
  return absorbRows(pages, { ...head, next: null, data: head.data.filter((row) => knownIds.has(rowId(row))) }).pages;
}

const sortRows = (rows: readonly TraceRow[]): TraceRow[] =>
  rows.toSorted((one, other) => (isBefore(one, other) ? -1 : 1));

/** Order of the table: newest first. Compares strings, as all times have the same format. */
const isBefore = (one: TraceRow, other: TraceRow): boolean =>
  one.start === other.start ? one.span_id > other.span_id : one.start > other.start;

/** Rows and new arrivals. At the top new rows appear at once; otherwise they wait, so that nothing moves. */
export interface LiveRows {
  rows: readonly TraceRow[];
  waiting: boolean;
  /** Rows of the previous query while this one loads. */
  isPrevious: boolean;
  error: Error | null;
  hasMore: boolean;
  /** Whether the next page failed to load. */
  nextPageFailed: boolean;
  fetching: boolean;
  fetchMore: () => void;
  retry: () => void;
  /** Number of waiting rows, and whether there may be more. */
  newRows: { count: number; mayBeMore: boolean };
  /** Show the waiting rows. */
  showNewRows: () => void;
  /** Check for new rows now. */
  checkNow: () => Promise<void>;
}

export function useLiveRows(query: TraceQuery, live: boolean, isAtTop: boolean): LiveRows {
  const pages = useInfiniteQuery(rowPagesQuery(query));
  const isReady = pages.data !== undefined && !pages.isPlaceholderData;
  const loadedPages = isReady ? pages.data.pages : null;
  // An empty table shows the first row at once; so does a table on return from another page.
  const isEmpty = loadedPages !== null && loadedPages.every(({ data }) => data.length === 0);
  const newest = useQuery({
    ...newestRowsQuery(query),
    enabled: isReady && (live || isEmpty || !pages.isFetchedAfterMount),
  });
  const next = useMemo(
    () => (loadedPages && newest.data ? absorbRows(loadedPages, newest.data) : null),
    [loadedPages, newest.data],
  );
  const mergeNewest = useEffectEvent(({ pages: mergedPages, added }: AbsorbResult, showNew: boolean) => {
    if (loadedPages && newest.data)
      setRowPages(query, showNew || added === 0 ? mergedPages : refreshRows(loadedPages, newest.data));
  });
  useEffect(() => {
    if (next) mergeNewest(next, isAtTop); // Structural sharing keeps unchanged rows, so this converges.
  }, [next, isAtTop]);
  const rows = useMemo(() => pages.data?.pages.flatMap(({ data }) => data) ?? [], [pages.data]);
  return {
    rows,
    waiting: pages.data === undefined && !pages.error,
    isPrevious: pages.isPlaceholderData,
    error: pages.error ?? (live ? newest.error : null),
    hasMore: pages.hasNextPage && !pages.isPlaceholderData && !pages.error,
    nextPageFailed: pages.isFetchNextPageError,
    fetching: pages.isFetching,
    fetchMore: () => void pages.fetchNextPage(),
    retry: () =>
      void (pages.data === undefined
        ? pages.refetch()
        : pages.isFetchNextPageError
          ? pages.fetchNextPage()
          : newest.refetch()),
    newRows: { count: next?.added ?? 0, mayBeMore: next?.replaced ?? false },
    showNewRows: () => {
      if (next) setRowPages(query, next.pages);
    },
    checkNow: async () => {
      const { error } = await newest.refetch();
      if (error) throw error;
    },
  };
}
