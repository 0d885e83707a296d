/**
 * The rows that are shown, and the new ones: those that came while the page was away, and while it is live those that
 * come. They go in at once while one is at the top; else they wait, so that nothing moves under the eyes.
 */
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useEffect, useEffectEvent, useMemo } from 'react';
import type { Asked } from './asked';
import { head, keepPages, rowPages } from './queries';
import { absorbed, refreshed, type Absorbed, type Row } from './rows';

export interface Rows {
  rows: readonly Row[];
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

export function useRows(asked: Asked, live: boolean, following: boolean): Rows {
  const pages = useInfiniteQuery(rowPages(asked));
  const ready = pages.data !== undefined && !pages.isPlaceholderData;
  const known = ready ? pages.data.pages : null;
  // Who looks at an empty table waits for the first row; and who comes back finds what was read before, and wants the rest.
  const empty = known !== null && known.every(({ data }) => data.length === 0);
  const newest = useQuery({ ...head(asked), enabled: ready && (live || empty || !pages.isFetchedAfterMount) });
  const next = useMemo(() => (known && newest.data ? absorbed(known, newest.data) : null), [known, newest.data]);
  const came = useEffectEvent(({ pages: all, added }: Absorbed, letIn: boolean) => {
    if (known && newest.data) keepPages(asked, letIn || added === 0 ? all : refreshed(known, newest.data));
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
    retry: () => void (pages.data === undefined ? pages.refetch() : pages.isFetchNextPageError ? pages.fetchNextPage() : newest.refetch()),
    fresh: { count: next?.added ?? 0, many: next?.anew ?? false },
    take: () => { if (next) keepPages(asked, next.pages); },
    look: async () => {
      const { error } = await newest.refetch();
      if (error) throw error;
    },
  };
}
