/** Virtual table of traces; fetches more near the end. */
import {
  useCallback,
  useEffect,
  useEffectEvent,
  useMemo,
  useRef,
  useState,
  type KeyboardEvent,
  type MouseEvent,
  type ReactNode,
} from 'react';
import { useLocation } from 'wouter';
import { MoreError, Spinner } from '@/components/status';
import { focusRow, handleArrowKeys, useVirtualRows } from '@/components/virtual-rows';
import { cn } from '@/lib/cn';
import { useNow } from '@/lib/hooks';
import { serverPath } from '@/lib/server-path';
import { rowPath, rowId, type TraceRow } from './rows';
import { ROW_CARD_HEIGHT, TRACE_COLUMNS, ROW_LINE_HEIGHT, TraceTableRow } from './table-row';

/** Distance to the end at which the next page is fetched. */
const PREFETCH_ROWS = 30;

interface Props {
  rows: readonly TraceRow[];
  kind: 'traces' | 'spans';
  /** The scroll container. */
  box: HTMLDivElement | null;
  /** Whether the rows belong to the previous query. */
  isStale: boolean;
  hasMore: boolean;
  isFetching: boolean;
  onMore: () => void;
  /** Whether the next page failed to load. */
  hasFailed: boolean;
}

export function TraceTable({ rows, kind, box, isStale, hasMore, isFetching, onMore, hasFailed }: Props): ReactNode {
  const list = useRef<HTMLDivElement>(null);
  // By id, because the index changes when rows arrive.
  const [activeId, setActiveId] = useState<string | null>(null);
  const active = useMemo(
    () =>
      Math.max(
        0,
        rows.findIndex((row) => rowId(row) === activeId),
      ),
    [rows, activeId],
  );
  const now = useNow();
  const open = useOpen();
  const keyOf = (index: number) => {
    const row = rows[index];
    return row ? rowId(row) : index;
  };
  const { virtual, margin, card } = useVirtualRows({
    list,
    box,
    count: rows.length,
    active,
    heights: { line: ROW_LINE_HEIGHT, card: ROW_CARD_HEIGHT },
    keyOf,
  });
  const items = virtual.getVirtualItems();
  const lastIndex = items.at(-1)?.index ?? 0;
  const fetchMore = useEffectEvent(onMore);
  useEffect(() => {
    if (hasMore && !isFetching && lastIndex >= rows.length - PREFETCH_ROWS) fetchMore();
  }, [hasMore, isFetching, lastIndex, rows.length]);
  const move = (to: number) => {
    const index = Math.max(0, Math.min(rows.length - 1, to));
    const row = rows[index];
    if (row) setActiveId(rowId(row));
    virtual.scrollToIndex(index);
    focusRow(list.current, index);
  };
  return (
    <div
      role="grid"
      tabIndex={-1}
      aria-label={kind === 'traces' ? 'Traces' : 'Spans'}
      aria-rowcount={hasMore ? -1 : rows.length + 1}
      aria-busy={isStale}
      onKeyDown={(event) => handleArrowKeys(event, active, move)}
    >
      {!card && <TableHead kind={kind} />}
      <div
        ref={list}
        role="rowgroup"
        className={cn('relative transition-opacity', isStale && 'opacity-50')}
        style={{ height: virtual.getTotalSize() }}
      >
        {items.map((item) => {
          const row = rows[item.index];
          return (
            row && (
              <div
                key={item.key}
                role="presentation"
                className="absolute inset-x-0 top-0"
                style={{ height: item.size, transform: `translateY(${item.start - margin}px)` }}
              >
                <TraceTableRow
                  row={row}
                  index={item.index}
                  now={now}
                  active={item.index === active}
                  card={card}
                  open={open}
                  onActivate={setActiveId}
                />
              </div>
            )
          );
        })}
      </div>
      <div className="flex h-12 items-center justify-center gap-2 text-xs text-faint">
        {hasMore && <Spinner label="Loading more" />}
        {!hasMore && !hasFailed && !isStale && rows.length > 20 && 'No more rows.'}
        {hasFailed && <MoreError onRetry={onMore} />}
      </div>
    </div>
  );
}

function TableHead({ kind }: { kind: Props['kind'] }): ReactNode {
  const rightAligned = 'truncate text-right';
  return (
    <div
      role="row"
      className={cn(
        'sticky top-13 z-10 h-8 items-center border-b bg-canvas px-4 text-xs font-medium text-faint',
        TRACE_COLUMNS[kind],
      )}
    >
      <span role="columnheader">Start</span>
      <span role="columnheader">Name</span>
      <span role="columnheader" className="grid grid-cols-1 @7xl:grid-cols-2 @7xl:gap-x-4">
        <span className="truncate">
          Input<span className="@7xl:hidden"> / output</span>
        </span>
        <span aria-hidden className="hidden @7xl:block">
          Output
        </span>
      </span>
      <span role="columnheader">Session</span>
      <span role="columnheader" className={rightAligned}>
        Duration
      </span>
      <span role="columnheader" className={rightAligned}>
        Tokens
      </span>
      {kind === 'traces' && (
        <span role="columnheader" className={rightAligned}>
          Spans
        </span>
      )}
    </div>
  );
}

/** Click or Enter opens; with Control or Command in a new tab, like links. */
function useOpen(): (row: TraceRow, event: MouseEvent | KeyboardEvent) => void {
  const [, navigate] = useLocation();
  return useCallback(
    (row, event) => {
      if (event.metaKey || event.ctrlKey) window.open(serverPath(rowPath(row)), '_blank', 'noopener');
      else navigate(rowPath(row));
    },
    [navigate],
  );
}
