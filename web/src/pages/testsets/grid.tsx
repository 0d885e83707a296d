/**
 * Grid with virtual rows and columns. Arrows move the focused cell, Enter opens it, Space selects its row, Delete
 * clears it.
 */
import { defaultRangeExtractor, useVirtualizer, type Range, type VirtualItem } from '@tanstack/react-virtual';
import {
  useEffect,
  useEffectEvent,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  type KeyboardEvent,
  type ReactNode,
  type RefObject,
} from 'react';
import { MoreError, Spinner } from '@/components/status';
import { cn } from '@/lib/cn';
import { formatSize } from '@/lib/format';
import { CellView } from './cell-view';
import { ColumnHeader, type ColumnActions } from './columns';
import {
  type Edits,
  type ShownColumn,
  cellValue,
  type GridEntry,
  GUTTER_WIDTH,
  toggleKey,
  type CellPosition,
  type RowSelection,
  cutCellBytes,
  entryData,
  isCellChanged,
} from './edits';

/** In pixels. */
const HEADER_HEIGHT = 40;
/** Room for two messages, three lines, and one line. */
const CONVERSATION_ROW_HEIGHT = 124;
const TALL_ROW_HEIGHT = 78;
const LOW_ROW_HEIGHT = 38;
const WIDTHS: Readonly<Record<ShownColumn['kind'], number>> = {
  chat: 340,
  message: 340,
  script: 340,
  text: 260,
  json: 260,
  mixed: 240,
  number: 120,
  boolean: 120,
};
const TAIL_WIDTH = 56;
const MAX_COLUMN_WIDTH = 640;

/** Distance to the end at which the next page is fetched. */
const PREFETCH_ROWS = 30;

export interface GridProps {
  label: string;
  columns: readonly ShownColumn[];
  entries: readonly GridEntry[];
  edits: Edits;
  isTall: boolean;
  hasMore: boolean;
  isFetching: boolean;
  hasFailed: boolean;
  isStale: boolean;
  onMore: () => void;
  onOpen: (position: CellPosition) => void;
  /** Undefined if read-only. */
  onClear?: ((position: CellPosition) => void) | undefined;
  onUndo?: (() => void) | undefined;
  selection?: RowSelection | undefined;
  /** Undefined if read-only. */
  actions: ColumnActions | undefined;
  /** Rendered after the last column. */
  tail?: ReactNode;
  /** Cell to focus once it is rendered. */
  focusTarget?: CellPosition | null;
}

export function Grid({
  label,
  columns,
  entries,
  edits,
  isTall,
  hasMore,
  isFetching,
  hasFailed,
  isStale,
  onMore,
  onOpen,
  onClear,
  onUndo,
  selection,
  actions,
  tail,
  focusTarget,
}: GridProps): ReactNode {
  const box = useRef<HTMLDivElement>(null);
  const [active, setActive] = useState<CellPosition | null>(null);
  const activeIndex = useMemo(() => positionOf(active, entries, columns), [entries, columns, active]);
  const widths = useColumnWidths(columns, box, tail ? TAIL_WIDTH : 0);
  const height = rowHeight(columns, isTall);
  // oxlint-disable-next-line react/incompatible-library -- no memoized component receives the virtualizer
  const rowVirtualizer = useVirtualizer({
    count: entries.length,
    getScrollElement: () => box.current,
    estimateSize: () => height,
    getItemKey: (index) => entries[index]?.key ?? index,
    overscan: 6,
    scrollPaddingStart: HEADER_HEIGHT,
    scrollMargin: 0,
    rangeExtractor: rangeIncluding(activeIndex.row, entries.length),
  });
  // oxlint-disable-next-line react/incompatible-library -- as above
  const columnVirtualizer = useVirtualizer({
    horizontal: true,
    count: columns.length,
    getScrollElement: () => box.current,
    estimateSize: (index) => widths[index] ?? 0,
    getItemKey: (index) => columns[index]?.name ?? index,
    overscan: 3,
    scrollPaddingStart: GUTTER_WIDTH,
    rangeExtractor: rangeIncluding(activeIndex.column, columns.length),
  });
  const remeasure = useEffectEvent(() => {
    rowVirtualizer.measure();
    columnVirtualizer.measure();
  });
  useEffect(() => remeasure(), [height, widths]);
  const items = rowVirtualizer.getVirtualItems();
  const visibleColumns = columnVirtualizer.getVirtualItems();
  const lastIndex = items.at(-1)?.index ?? 0;
  const fetchMore = useEffectEvent(onMore);
  useEffect(() => {
    if (hasMore && !isFetching && !hasFailed && lastIndex >= entries.length - PREFETCH_ROWS) fetchMore();
  }, [hasMore, isFetching, hasFailed, lastIndex, entries.length]);
  const focusIndex = (row: number, column: number) => {
    const target = { row: clamp(row, entries.length), column: clamp(column, columns.length) };
    const [entry, targetColumn] = [entries[target.row], columns[target.column]];
    if (!entry || !targetColumn) return;
    setActive({ key: entry.key, column: targetColumn.name });
    rowVirtualizer.scrollToIndex(target.row);
    columnVirtualizer.scrollToIndex(target.column);
    focusCell(box.current, target.row, target.column);
  };
  const goTo = useEffectEvent((position: CellPosition) => {
    const { row, column } = positionOf(position, entries, columns);
    focusIndex(row, column);
  });
  useEffect(() => {
    if (focusTarget) goTo(focusTarget);
  }, [focusTarget]);
  const onKey = (event: KeyboardEvent<HTMLElement>) => {
    const cell = event.target instanceof Element && event.target.matches('[data-cell]') ? event.target : null;
    const [entry, column] = [entries[activeIndex.row], columns[activeIndex.column]];
    if (!cell || !entry || !column || event.altKey) return;
    const position = { key: entry.key, column: column.name };
    const step = keyboardStep(event, activeIndex, entries.length, columns.length);
    if (step) focusIndex(step.row, step.column);
    else if (event.key === 'Enter' || event.key === 'F2') onOpen(position);
    else if ((event.key === 'Delete' || event.key === 'Backspace') && onClear) onClear(position);
    else if (event.key === 'z' && (event.ctrlKey || event.metaKey) && onUndo) onUndo();
    else if (event.key === ' ' && selection) selection.set(toggleKey(selection.keys, entry.key));
    else return;
    event.preventDefault();
  };
  const width = GUTTER_WIDTH + columnVirtualizer.getTotalSize();
  return (
    <div
      ref={box}
      role="grid"
      tabIndex={-1}
      aria-label={label}
      aria-rowcount={hasMore ? -1 : entries.length + 1}
      aria-colcount={columns.length + 1}
      aria-busy={isStale}
      onKeyDown={onKey}
      className="relative min-h-0 grow overflow-auto bg-surface [overflow-anchor:none]"
    >
      <div className="min-w-full" style={{ width: width + (tail ? TAIL_WIDTH : 0) }}>
        <GridHeader
          columns={columns}
          entries={entries}
          visibleColumns={visibleColumns}
          selection={selection}
          actions={actions}
          tail={tail}
          width={width}
        />
        <div
          role="rowgroup"
          className={cn('relative transition-opacity', isStale && 'opacity-60')}
          style={{ height: rowVirtualizer.getTotalSize() }}
        >
          {items.map(({ index, start, size, key }) => {
            const entry = entries[index];
            return (
              entry && (
                <GridRow
                  key={key}
                  entry={entry}
                  rowIndex={index}
                  top={start}
                  height={size}
                  columns={columns}
                  visibleColumns={visibleColumns}
                  edits={edits}
                  isTall={isTall}
                  active={index === activeIndex.row ? activeIndex.column : -1}
                  selection={selection}
                  onFocus={setActive}
                  onOpen={onOpen}
                />
              )
            );
          })}
        </div>
      </div>
      <GridFooter hasMore={hasMore} hasFailed={hasFailed} onMore={onMore} />
    </div>
  );
}

type GridHeaderProps = Pick<GridProps, 'columns' | 'entries' | 'selection' | 'actions' | 'tail'> & {
  visibleColumns: readonly VirtualItem[];
  width: number;
};

function GridHeader({ columns, entries, visibleColumns, selection, actions, tail, width }: GridHeaderProps): ReactNode {
  return (
    <div
      role="row"
      aria-rowindex={1}
      className="sticky top-0 z-20 border-b bg-canvas"
      style={{ height: HEADER_HEIGHT }}
    >
      <div
        role="columnheader"
        aria-colindex={1}
        className="sticky left-0 z-10 flex h-full items-center gap-2 border-r bg-canvas px-2.5 text-xs text-faint"
        style={{ width: GUTTER_WIDTH }}
      >
        {selection && (
          <input
            type="checkbox"
            aria-label="Select all loaded rows"
            checked={entries.length > 0 && selection.keys.size >= entries.length}
            onChange={(event) =>
              selection.set(event.target.checked ? new Set(entries.map(({ key }) => key)) : new Set())
            }
          />
        )}
      </div>
      {visibleColumns.map(({ index, start, size, key }) => {
        const column = columns[index];
        return (
          column && (
            <div
              key={key}
              role="columnheader"
              aria-colindex={index + 2}
              className="absolute inset-y-0 flex items-center overflow-hidden border-r px-2.5"
              style={{ left: GUTTER_WIDTH + start, width: size }}
            >
              <ColumnHeader column={column} actions={actions} />
            </div>
          )
        );
      })}
      {tail && (
        <div className="absolute inset-y-0 flex items-center px-2" style={{ left: width }}>
          {tail}
        </div>
      )}
    </div>
  );
}

function GridFooter({ hasMore, hasFailed, onMore }: Pick<GridProps, 'hasMore' | 'hasFailed' | 'onMore'>): ReactNode {
  return (
    <div className="sticky left-0 flex h-11 w-fit items-center gap-2 px-4 text-xs text-faint">
      {hasMore && !hasFailed && <Spinner label="Loading more" />}
      {hasFailed && <MoreError onRetry={onMore} />}
    </div>
  );
}

/** Width by kind and name; the remaining space is shared by columns that can use it. */
function useColumnWidths(
  columns: readonly ShownColumn[],
  box: RefObject<HTMLDivElement | null>,
  tail: number,
): readonly number[] {
  const [availableWidth, setAvailableWidth] = useState(0);
  useLayoutEffect(() => {
    const inner = box.current;
    if (!inner) return undefined;
    const observer = new ResizeObserver(() => setAvailableWidth(inner.clientWidth));
    observer.observe(inner);
    return () => observer.disconnect();
  }, [box]);
  return useMemo(() => {
    const desiredWidths = columns.map(({ name, kind }) =>
      Math.max(WIDTHS[kind], Math.min(360, Math.round(96 + 8 * name.length + 6.5 * kind.length))),
    );
    const growingCount = columns.filter(({ kind }) => kind !== 'number' && kind !== 'boolean').length;
    const extraWidth = Math.max(
      0,
      Math.floor(
        (availableWidth - GUTTER_WIDTH - tail - desiredWidths.reduce((sum, width) => sum + width, 0)) /
          Math.max(1, growingCount),
      ),
    );
    return desiredWidths.map((width, index) =>
      columns[index]?.kind === 'number' || columns[index]?.kind === 'boolean'
        ? width
        : Math.max(width, Math.min(MAX_COLUMN_WIDTH, width + extraWidth)),
    );
  }, [columns, availableWidth, tail]);
}

function rowHeight(columns: readonly ShownColumn[], isTall: boolean): number {
  if (!isTall) return LOW_ROW_HEIGHT;
  return columns.some(({ kind }) => kind === 'chat' || kind === 'message' || kind === 'script')
    ? CONVERSATION_ROW_HEIGHT
    : TALL_ROW_HEIGHT;
}

/** Row and column index of a cell; 0 if missing. */
function positionOf(
  cell: CellPosition | null,
  entries: readonly GridEntry[],
  columns: readonly ShownColumn[],
): { row: number; column: number } {
  const row = entries.findIndex(({ key }) => key === cell?.key);
  const column = columns.findIndex(({ name }) => name === cell?.column);
  return { row: Math.max(0, row), column: Math.max(0, column) };
}

/** A range extractor that keeps the item with the focus, even if it is scrolled out of view. */
const rangeIncluding = (focused: number, count: number) => (range: Range) => {
  const indexes = defaultRangeExtractor(range);
  return focused >= count || indexes.includes(focused)
    ? indexes
    : [focused, ...indexes].toSorted((one, other) => one - other);
};

const clamp = (index: number, count: number): number => Math.max(0, Math.min(count - 1, index));

function keyboardStep(
  { key, ctrlKey, metaKey }: KeyboardEvent,
  { row, column }: { row: number; column: number },
  rows: number,
  columns: number,
): { row: number; column: number } | null {
  const toEdge = ctrlKey || metaKey;
  switch (key) {
    case 'ArrowDown':
      return { row: toEdge ? rows - 1 : row + 1, column };
    case 'ArrowUp':
      return { row: toEdge ? 0 : row - 1, column };
    case 'ArrowRight':
      return { row, column: toEdge ? columns - 1 : column + 1 };
    case 'ArrowLeft':
      return { row, column: toEdge ? 0 : column - 1 };
    case 'PageDown':
      return { row: row + 10, column };
    case 'PageUp':
      return { row: row - 10, column };
    case 'Home':
      return { row: toEdge ? 0 : row, column: 0 };
    case 'End':
      return { row: toEdge ? rows - 1 : row, column: columns - 1 };
    default:
      return null;
  }
}

/** Focus a cell. Retries, because the cell renders only after scrolling. */
function focusCell(box: HTMLElement | null, row: number, column: number, attempts = 10): void {
  const cell = box?.querySelector<HTMLElement>(`[data-cell="${row}.${column}"]`);
  if (cell) cell.focus({ preventScroll: true });
  else if (attempts > 0) requestAnimationFrame(() => focusCell(box, row, column, attempts - 1));
}

interface GridRowProps {
  entry: GridEntry;
  rowIndex: number;
  top: number;
  height: number;
  columns: readonly ShownColumn[];
  visibleColumns: readonly VirtualItem[];
  edits: Edits;
  isTall: boolean;
  /** Focused column; -1 in other rows. */
  active: number;
  selection: RowSelection | undefined;
  onFocus: (position: CellPosition) => void;
  onOpen: (position: CellPosition) => void;
}

export function GridRow({
  entry,
  rowIndex,
  top,
  height,
  columns,
  visibleColumns,
  edits,
  isTall,
  active,
  selection,
  onFocus,
  onOpen,
}: GridRowProps): ReactNode {
  const data = useMemo(() => entryData(entry, edits), [entry, edits]);
  const isSelected = selection?.keys.has(entry.key) ?? false;
  const number = entry.row ? (entry.row.place + 1).toLocaleString('en') : 'new';
  return (
    <div
      role="row"
      aria-rowindex={rowIndex + 2}
      aria-selected={selection ? isSelected : undefined}
      className={cn('group/row absolute top-0 left-0 w-full border-b', isSelected && 'bg-accent-soft/50')}
      style={{ height, transform: `translateY(${top}px)` }}
    >
      <div
        role="rowheader"
        aria-colindex={1}
        className={cn(
          'sticky left-0 z-10 flex h-full items-start gap-2 border-r px-2.5 text-xs text-faint tabular-nums',
          isTall ? 'pt-2' : 'pt-2.5',
          isSelected ? 'bg-accent-soft' : 'bg-canvas',
        )}
        style={{ width: GUTTER_WIDTH }}
      >
        {selection && (
          <input
            type="checkbox"
            tabIndex={-1}
            aria-label={`Select row ${number}`}
            checked={isSelected}
            onChange={() => selection.set(toggleKey(selection.keys, entry.key))}
            className="mt-px"
          />
        )}
        <span className={cn('truncate', !entry.row && 'font-medium text-good')}>{number}</span>
      </div>
      {visibleColumns.map(({ index, start, size: width, key }) => {
        const column = columns[index];
        if (!column) return null;
        const cutBytes = isCellChanged(entry, column.name, edits)
          ? 0
          : cutCellBytes(entry, column.name, column.originalName);
        const position: CellPosition = { key: entry.key, column: column.name };
        return (
          // oxlint-disable-next-line jsx-a11y/click-events-have-key-events -- the grid handles all keys
          <div
            key={key}
            role="gridcell"
            aria-colindex={index + 2}
            data-cell={`${rowIndex}.${index}`}
            tabIndex={active === index ? 0 : -1}
            onFocus={() => onFocus(position)}
            onClick={() => onOpen(position)}
            className={cn(
              'absolute inset-y-0 cursor-pointer overflow-hidden border-r',
              'px-2.5 py-2 -outline-offset-2 hover:bg-sunken/60',
              isCellChanged(entry, column.name, edits) && 'bg-warn-soft/60',
              !entry.row && 'bg-good-soft/40',
            )}
            style={{ left: GUTTER_WIDTH + start, width }}
          >
            <CellView value={cellValue(data, column.name)} kind={column.kind} isTall={isTall} />
            {cutBytes > 0 && (
              <span
                className="absolute right-1.5 bottom-1 rounded bg-surface/90 px-1 text-[11px]/4 text-faint"
                title="Truncated"
              >
                {formatSize(cutBytes)}
              </span>
            )}
          </div>
        );
      })}
    </div>
  );
}
