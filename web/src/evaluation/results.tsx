/** The results, cell by cell: found, filtered, and opened. The whole page scrolls, so the table is told where it begins. */
import { useInfiniteQuery } from '@tanstack/react-query';
import { defaultRangeExtractor, useVirtualizer } from '@tanstack/react-virtual';
import { useCallback, useEffect, useEffectEvent, useLayoutEffect, useMemo, useRef, useState, type KeyboardEvent, type ReactNode, type RefObject } from 'react';
import type { Evaluation } from '@/evaluations/queries';
import { isOpen } from '@/evaluations/words';
import { classes } from '@/lib/classes';
import { Problem, Spinner } from '@/ui/bits';
import { Button } from '@/ui/button';
import { NOTHING, isFiltered, type Ask, type Asked } from './asked';
import { Filters } from './filters';
import { resultPages } from './queries';
import { CARD, COLUMNS, LINE, ResultLine } from './result-line';

/** Below this width rows are cards. */
const NARROW = 768;
/** So many rows before the end more are asked for. */
const NEAR = 30;

interface Props {
  evaluation: Evaluation;
  asked: Asked;
  ask: Ask;
  box: HTMLDivElement | null;
}

export function Results({ evaluation, asked, ask, box }: Props): ReactNode {
  const { data, error, refetch, hasNextPage, isFetching, fetchNextPage, isPlaceholderData, isFetchNextPageError } = useInfiniteQuery(resultPages(evaluation.id, asked));
  const rows = useMemo(() => data?.pages.flatMap((page) => page.data) ?? [], [data]);
  const list = useRef<HTMLDivElement>(null);
  const { margin, card } = useMeasured(list, box, rows.length > 0);
  const [active, setActive] = useState(0);
  const height = card ? CARD : LINE;
  // oxlint-disable-next-line react/incompatible-library -- nothing of it is handed on to what is memoized
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box,
    estimateSize: () => height,
    scrollMargin: margin,
    scrollPaddingStart: 96,
    overscan: 10,
    // The row that has the focus stays, wherever one scrolls: else the keyboard would be nowhere.
    rangeExtractor: (range) => {
      const shown = defaultRangeExtractor(range);
      return shown.includes(active) || active >= rows.length ? shown : [active, ...shown].toSorted((one, other) => one - other);
    },
  });
  const remeasure = useEffectEvent(() => virtual.measure());
  useEffect(() => remeasure(), [height]);
  const items = virtual.getVirtualItems();
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (hasNextPage && !isFetching && !isFetchNextPageError && last >= rows.length - NEAR) void fetchNextPage();
  }, [hasNextPage, isFetching, isFetchNextPageError, last, rows.length, fetchNextPage]);
  const open = useCallback((cell: string) => ask({ ...asked, cell }), [ask, asked]);
  const move = (to: number) => {
    const place = Math.max(0, Math.min(rows.length - 1, to));
    setActive(place);
    virtual.scrollToIndex(place);
    focusRow(list.current, place);
  };
  return (
    <section aria-label="Results" className="border-t">
      <Filters evaluation={evaluation} asked={asked} ask={ask} />
      {error && <div className="px-4 pb-3 sm:px-6"><Problem error={error}><Button size="small" onClick={() => void refetch()}>Try again</Button></Problem></div>}
      {!data && !error && <div className="flex justify-center py-10"><Spinner /></div>}
      {data && rows.length === 0 && (
        <div className="flex flex-col items-center gap-2 px-6 py-10 text-center text-muted">
          {isFiltered(asked) ? <>No result is like that.<Button size="small" onClick={() => ask({ ...NOTHING, slice: asked.slice })}>Clear the filters</Button></> : isOpen(evaluation.state) ? 'The first results are on their way.' : 'Nothing was answered.'}
        </div>
      )}
      {rows.length > 0 && (
        <div
          role="grid"
          tabIndex={-1}
          aria-label="Results"
          aria-rowcount={hasNextPage ? -1 : rows.length + 1}
          aria-busy={isPlaceholderData}
          onKeyDown={(event) => onArrows(event, active, move)}
        >
          {!card && <Head />}
          <div ref={list} role="rowgroup" className={classes('relative transition-opacity', isPlaceholderData && 'opacity-50')} style={{ height: virtual.getTotalSize() }}>
            {items.map(({ index, key, start, size }) => {
              const row = rows[index];
              return (
                row && (
                  <div key={key} role="presentation" className="absolute inset-x-0 top-0" style={{ height: size, transform: `translateY(${start - margin}px)` }}>
                    <ResultLine evaluation={evaluation} row={row} place={index} active={index === active} card={card} still={asked.cell !== null} open={open} enter={setActive} />
                  </div>
                )
              );
            })}
          </div>
          <div className="flex h-12 items-center justify-center gap-2 text-xs text-faint">
            {hasNextPage && !isFetchNextPageError && <Spinner label="Loading more" />}
            {isFetchNextPageError && <>More could not be read.<Button size="small" onClick={() => void fetchNextPage()}>Retry</Button></>}
            {!hasNextPage && rows.length > 20 && 'That is all.'}
          </div>
        </div>
      )}
    </section>
  );
}

const Head = (): ReactNode => (
  <div role="row" className={classes('sticky top-0 z-10 h-8 items-center border-b bg-canvas px-4 text-xs font-medium text-faint sm:px-6', COLUMNS)}>
    <span role="columnheader">Row</span>
    <span role="columnheader">Asked</span>
    <span role="columnheader">Answered</span>
    <span role="columnheader">Scores</span>
    <span role="columnheader" className="text-right">Latency</span>
  </div>
);

/** Where the list begins in the box, and whether there is room for columns; measured again when anything above changes. */
function useMeasured(list: RefObject<HTMLDivElement | null>, box: HTMLDivElement | null, shown: boolean): { margin: number; card: boolean } {
  const [measured, setMeasured] = useState({ margin: 0, card: false });
  useLayoutEffect(() => {
    if (!box || !shown) return undefined;
    const measure = () => {
      const top = list.current?.getBoundingClientRect().top ?? 0;
      const margin = Math.round(top - box.getBoundingClientRect().top + box.scrollTop);
      const card = box.clientWidth < NARROW;
      setMeasured((before) => (before.margin === margin && before.card === card ? before : { margin, card }));
    };
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(box);
    for (const above of box.querySelectorAll('[data-above]')) observer.observe(above);
    return () => observer.disconnect();
  }, [list, box, shown]);
  return measured;
}

const STEPS: Record<string, (at: number) => number> = {
  ArrowDown: (at) => at + 1,
  ArrowUp: (at) => at - 1,
  PageDown: (at) => at + 10,
  PageUp: (at) => at - 10,
  Home: () => 0,
  End: () => Number.MAX_SAFE_INTEGER,
};

function onArrows(event: KeyboardEvent<HTMLElement>, active: number, move: (to: number) => void): void {
  const step = Object.hasOwn(STEPS, event.key) ? STEPS[event.key] : undefined;
  if (!step || event.altKey || event.ctrlKey || event.metaKey || !event.currentTarget.contains(event.target as Node)) return;
  event.preventDefault();
  move(step(active));
}

/** It may be drawn only after the box has scrolled there. */
function focusRow(list: HTMLElement | null, place: number, tries = 10): void {
  const row = list?.querySelector<HTMLElement>(`[data-place="${place}"]`);
  if (row) row.focus({ preventScroll: true });
  else if (tries > 0) requestAnimationFrame(() => focusRow(list, place, tries - 1));
}
