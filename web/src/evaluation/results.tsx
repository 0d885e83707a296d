/** The results, cell by cell: found, filtered, and opened. */
import { useInfiniteQuery } from '@tanstack/react-query';
import { useCallback, useEffect, useMemo, useRef, useState, type ReactNode } from 'react';
import type { Evaluation } from '@/evaluations/queries';
import { isOpen } from '@/evaluations/words';
import { classes } from '@/lib/class-names';
import { Problem, Spinner } from '@/components/status';
import { Button } from '@/components/button';
import { focusRow, onArrows, useLongRows } from '@/components/virtual-rows';
import { NOTHING, isFiltered, type Ask, type Asked } from './asked';
import { Filters } from './filters';
import { resultPages } from './queries';
import { CARD, COLUMNS, LINE, ResultLine } from './result-line';

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
  const [active, setActive] = useState(0);
  const { virtual, margin, card } = useLongRows({ list, box, count: rows.length, active, heights: { line: LINE, card: CARD } });
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
