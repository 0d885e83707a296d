/** The rows of the table as pages, and how those that come meanwhile get in. Pure. */
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useEffect, useEffectEvent, useMemo } from 'react';
import type { Schemas } from '@/api/client';
import { newestRowsQuery, setRowPages, rowPagesQuery } from './queries';
import type { TimeBounds, TraceQuery } from './query';

/** A trace, or a span: that has no number of spans. */
export type TraceRow = Schemas['SpanRow'] & Partial<Pick<Schemas['TraceRow'], 'spans' | 'errors'>>;

export interface RowPage {
  data: readonly TraceRow[];
  next: string | null;
  /** The time that was asked for: the next page has to ask for the same. */
  time: TimeBounds;
}

/** What a row is called; a trace's row may come to be of another span. */
export const rowId = (row: TraceRow): string =>
  row.spans === undefined ? `${row.trace_id}/${row.span_id}` : row.trace_id;

/** Where it leads. */
export const rowPath = (row: TraceRow): string =>
  `/traces/${row.trace_id}${row.spans === undefined ? `?span=${row.span_id}` : ''}`;

export interface AbsorbResult {
  pages: readonly RowPage[];
  /** How many rows are new. */
  added: number;
  /** Is everything new, so that rows may be missing before what was known? Then the pages are the newest only. */
  anew: boolean;
}

/** The pages with the newest rows (`head`, one page as it is now) in their places. */
export function absorbRows(pages: readonly RowPage[], head: RowPage): AbsorbResult {
  const known = new Set(pages.flatMap(({ data }) => data.map(rowId)));
  const added = head.data.filter((row) => !known.has(rowId(row)));
  if (known.size > 0 && added.length === head.data.length && head.next !== null)
    return { pages: [head], added: added.length, anew: true };
  if (known.size === 0) return { pages: [head], added: added.length, anew: false };
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
  return { pages: merged, added: added.length, anew: false };
}

/** Only what is known already, as it is now: nothing moves. */
export function refreshRows(pages: readonly RowPage[], head: RowPage): readonly RowPage[] {
  const known = new Set(pages.flatMap(({ data }) => data.map(rowId)));
  return absorbRows(pages, { ...head, next: null, data: head.data.filter((row) => known.has(rowId(row))) }).pages;
}

const inOrder = (rows: readonly TraceRow[]): TraceRow[] =>
  rows.toSorted((one, other) => (isBefore(one, other) ? -1 : 1));

/** The latest first. All times have the same form. */
const isBefore = (one: TraceRow, other: TraceRow): boolean =>
  one.start === other.start ? one.span_id > other.span_id : one.start > other.start;

/**
 * The rows that are shown, and the new ones: those that came while the page was away, and while it is live those that
 * come. They go in at once while one is at the top; else they wait, so that nothing moves under the eyes.
 */
export interface LiveRows {
  rows: readonly TraceRow[];
  /** Nothing has been answered yet. */
  waiting: boolean;
  /** They are of an older question, until this one is answered. */
  old: boolean;
  error: Error | null;
  more: boolean;
  /** The next page could not be read. */
  cut: boolean;
  fetching: boolean;
  fetchMore: () => void;
  retry: () => void;
  /** How many wait; `many` if there may be more. */
  fresh: { count: number; many: boolean };
  /** Let those in that wait. */
  take: () => void;
  /** Look for new ones now. */
  look: () => Promise<void>;
}

export function useLiveRows(asked: TraceQuery, live: boolean, following: boolean): LiveRows {
  const pages = useInfiniteQuery(rowPagesQuery(asked));
  const ready = pages.data !== undefined && !pages.isPlaceholderData;
  const known = ready ? pages.data.pages : null;
  // Who looks at an empty table waits for the first row; and who comes back finds what was read before, and wants the
  // rest.
  const empty = known !== null && known.every(({ data }) => data.length === 0);
  const newest = useQuery({
    ...newestRowsQuery(asked),
    enabled: ready && (live || empty || !pages.isFetchedAfterMount),
  });
  const next = useMemo(() => (known && newest.data ? absorbRows(known, newest.data) : null), [known, newest.data]);
  const came = useEffectEvent(({ pages: all, added }: AbsorbResult, letIn: boolean) => {
    if (known && newest.data) setRowPages(asked, letIn || added === 0 ? all : refreshRows(known, newest.data));
  });
  useEffect(() => {
    if (next) came(next, following); // What is kept is shared with what was known, so this comes to rest.
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
    fresh: { count: next?.added ?? 0, many: next?.anew ?? false },
    take: () => {
      if (next) setRowPages(asked, next.pages);
    },
    look: async () => {
      const { error } = await newest.refetch();
      if (error) throw error;
    },
  };
}
