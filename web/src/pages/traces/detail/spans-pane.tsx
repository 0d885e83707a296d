/** Spans of a trace: tree and timeline with virtual rows. */
import { useQuery } from '@tanstack/react-query';
import { useVirtualizer } from '@tanstack/react-virtual';
import {
  ChevronDown,
  ChevronsDownUp,
  ChevronsUpDown,
  ChevronUp,
  CircleAlert,
  Maximize2,
  ZoomIn,
  ZoomOut,
} from 'lucide-react';
import { useCallback, useEffect, useMemo, useRef, useState, type KeyboardEvent, type ReactNode } from 'react';
import { IconButton } from '@/components/button';
import { TextField } from '@/components/form-fields';
import { cn } from '@/lib/cn';
import { useDebounced } from '@/lib/hooks';
import { spansContainingQuery } from '@/pages/traces/queries';
import { Overview } from './overview';
import { ROW_HEIGHT, SpanRow, type SpanColumns } from './span-row';
import {
  allSpans,
  spansMatching,
  nextMatch,
  ancestors,
  initiallyOpen,
  visibleRows,
  type SpanTree,
  type SpanTreeRow,
  type SpanNode,
  keyboardMove,
  typeAhead,
} from './span-tree';
import { isFullRange, moveRange, ticks, clampRange, zoomRange, type TimeRange } from './timeline';

interface SpansPaneProps {
  trace: string;
  tree: SpanTree;
  columns: SpanColumns;
  selected: string | null;
  onSelect: (id: string) => void;
}

export function SpansPane({ trace, tree, columns, selected, onSelect }: SpansPaneProps): ReactNode {
  const box = useRef<HTMLDivElement>(null);
  const { rows, toggle, openAll, closeAll } = useTreeRows(tree, selected);
  const { range, setRange } = useRange(tree.duration);
  const [searchText, setSearchText] = useState('');
  const matches = useSpanSearch(trace, tree, searchText);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 10,
  });

  const selectedIndex = useMemo(() => rows.findIndex(({ node }) => node.id === selected), [rows, selected]);
  useEffect(() => {
    if (selectedIndex >= 0) virtual.scrollToIndex(selectedIndex, { align: 'auto' });
    // oxlint-disable-next-line react/exhaustive-deps -- scroll only when the selection changes
  }, [selected, selectedIndex < 0]);

  const goTo = (isWanted: (node: SpanNode) => boolean, backwards = false) => {
    const id = nextMatch(allSpans(tree), isWanted, selected, backwards);
    if (id) onSelect(id);
  };
  const letters = useTypeAhead();
  const handleKeyDown = (event: KeyboardEvent<HTMLDivElement>) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor((box.current?.clientHeight ?? 0) / ROW_HEIGHT) - 1);
    const move = keyboardMove(event.key, rows, selected, page);
    if (move) {
      if ('to' in move) onSelect(move.to);
      else toggle('open' in move ? move.open : move.close, 'open' in move);
    } else if (/^[+-]$/.test(event.key) && columns !== 'tree')
      setRange(zoomRange(range, tree.duration, event.key === '+' ? 0.5 : 2));
    else if (/^[\p{L}\p{N}]$/u.test(event.key)) {
      const id = typeAhead(letters(event.key), rows, selected);
      if (id) onSelect(id);
    } else return;
    event.preventDefault();
  };
  const onToggle = useCallback((row: SpanTreeRow) => toggle(row.node.id, !row.open), [toggle]);
  const onFocus = useCallback(
    ({ offset, duration }: SpanNode) =>
      setRange(clampRange({ from: offset - duration * 0.05, to: offset + duration * 1.05 }, tree.duration)),
    [setRange, tree.duration],
  );
  const errorCount = useMemo(() => tree.order.filter(({ status }) => status === 'error').length, [tree]);
  const zoom = {
    by: (factor: number) => setRange(zoomRange(range, tree.duration, factor)),
    reset: () => setRange({ from: 0, to: tree.duration }),
    isFull: isFullRange(range, tree.duration),
  };
  return (
    <section aria-label="Spans" className="flex min-h-0 min-w-0 grow flex-col bg-surface">
      <SpansBar
        searchText={searchText}
        onSearchText={setSearchText}
        matches={matches?.size ?? null}
        onNext={(backwards) => goTo(({ id }) => matches?.has(id) ?? false, backwards)}
        errorCount={errorCount}
        onNextError={() => goTo(({ status }) => status === 'error')}
        onOpenAll={openAll}
        onCloseAll={closeAll}
        zoom={columns === 'tree' ? null : zoom}
      />
      {columns !== 'tree' && <TimeHead tree={tree} columns={columns} range={range} onRange={setRange} />}
      <div
        ref={box}
        role="tree"
        aria-label="Spans of the trace"
        tabIndex={0}
        onKeyDown={handleKeyDown}
        {...(selectedIndex >= 0 && selected ? { 'aria-activedescendant': rowId(selected) } : {})}
        className={cn(
          'group/tree min-h-0 grow overflow-x-hidden overflow-y-auto overscroll-contain -outline-offset-2',
          selectedIndex >= 0 && 'outline-none',
        )}
      >
        <div role="presentation" className="relative" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map(({ index, start }) => {
            const row = rows[index];
            return (
              row && (
                <SpanRow
                  key={row.node.id}
                  id={rowId(row.node.id)}
                  row={row}
                  top={start}
                  selected={row.node.id === selected}
                  isMatch={matches?.has(row.node.id) ?? false}
                  columns={columns}
                  range={range}
                  onSelect={onSelect}
                  onToggle={onToggle}
                  onFocus={onFocus}
                />
              )
            );
          })}
        </div>
      </div>
    </section>
  );
}

const rowId = (span: string): string => `span-${span}`;

/** Visible rows: initially open ones plus the user's changes. The selected span is always visible. */
function useTreeRows(tree: SpanTree, selected: string | null) {
  const openInitially = useMemo(() => initiallyOpen(tree), [tree]);
  const [expandAll, setExpandAll] = useState<boolean | null>(null);
  const [toggled, setToggled] = useState<ReadonlyMap<string, boolean>>(() => new Map());
  const rows = useMemo(
    () =>
      visibleRows(
        tree,
        ({ id, parent }) =>
          toggled.get(id) ?? (expandAll === null ? openInitially.has(id) : expandAll || parent === null),
      ),
    [tree, openInitially, expandAll, toggled],
  );
  const node = selected === null ? undefined : tree.spans.get(selected);
  useEffect(() => {
    if (!node) return;
    setToggled((previous) => {
      const hidden = ancestors(node).filter(
        ({ id }) => !(previous.get(id) ?? (expandAll === null ? openInitially.has(id) : expandAll)),
      );
      return hidden.length ? new Map([...previous, ...hidden.map(({ id }) => [id, true] as const)]) : previous;
    });
    // oxlint-disable-next-line react/exhaustive-deps -- the user may close the ancestors of the selected span
  }, [node]);
  const toggle = useCallback((id: string, open: boolean) => setToggled((old) => new Map([...old, [id, open]])), []);
  const setAllOpen = (open: boolean) => () => {
    setExpandAll(open);
    setToggled(new Map());
  };
  return { rows, toggle, openAll: setAllOpen(true), closeAll: setAllOpen(false) };
}

/** Visible time range; everything until the user selects one. */
function useRange(duration: number) {
  const [selectedRange, setSelectedRange] = useState<TimeRange | null>(null);
  const range = useMemo(() => selectedRange ?? { from: 0, to: duration }, [selectedRange, duration]);
  const setRange = useCallback((to: TimeRange) => setSelectedRange(isFullRange(to, duration) ? null : to), [duration]);
  return { range, setRange };
}

function useSpanSearch(trace: string, tree: SpanTree, searchText: string): ReadonlySet<string> | null {
  const query = useDebounced(searchText.trim(), 250);
  const { data } = useQuery(spansContainingQuery(trace, query));
  return useMemo(() => {
    if (!query) return null;
    const ids = spansMatching(tree, query);
    for (const id of data ?? []) if (tree.spans.has(id)) ids.add(id);
    return ids;
  }, [tree, query, data]);
}

/** Letters typed in quick succession form a word. */
function useTypeAhead(): (letter: string) => string {
  const typed = useRef({ text: '', time: 0 });
  return (letter) => {
    const now = performance.now();
    typed.current = { text: now - typed.current.time < 700 ? typed.current.text + letter : letter, time: now };
    return typed.current.text;
  };
}

function TimeHead({
  tree,
  columns,
  range,
  onRange,
}: {
  tree: SpanTree;
  columns: SpanColumns;
  range: TimeRange;
  onRange: (range: TimeRange) => void;
}): ReactNode {
  const width = range.to - range.from || 1;
  return (
    <div className="flex shrink-0 border-b bg-canvas" aria-label="Timeline" role="group">
      <div className={cn('shrink-0 border-r', columns === 'both' ? 'w-[54%]' : 'w-[38%]')} />
      <div
        className="min-w-0 grow px-1.5"
        onWheel={(event) =>
          event.shiftKey && onRange(moveRange(range, tree.duration, Math.sign(event.deltaY || event.deltaX) * 0.1))
        }
      >
        <Overview tree={tree} range={range} onRange={onRange} />
        <div className="relative h-5 overflow-hidden border-t text-[11px]/5 text-faint tabular-nums" aria-hidden>
          {ticks(range, 4).map(({ time, label }) => {
            const percent = ((time - range.from) / width) * 100;
            const isNearEnd = percent > 85; // The label goes to the left of its tick.
            return (
              <span
                key={time}
                className={cn('absolute whitespace-nowrap', isNearEnd ? 'border-r pr-1' : 'border-l pl-1')}
                style={isNearEnd ? { right: `${100 - percent}%` } : { left: `${percent}%` }}
              >
                {label}
              </span>
            );
          })}
        </div>
      </div>
    </div>
  );
}

interface SpansBarProps {
  searchText: string;
  onSearchText: (searchText: string) => void;
  /** Number of matches; null without a search. */
  matches: number | null;
  onNext: (backwards: boolean) => void;
  errorCount: number;
  onNextError: () => void;
  onOpenAll: () => void;
  onCloseAll: () => void;
  /** Null without a timeline. */
  zoom: { by: (factor: number) => void; reset: () => void; isFull: boolean } | null;
}

/** Toolbar: search, expand, collapse, zoom. */
export function SpansBar({
  searchText,
  onSearchText,
  matches,
  onNext,
  errorCount,
  onNextError,
  onOpenAll,
  onCloseAll,
  zoom,
}: SpansBarProps): ReactNode {
  const handleKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter') onNext(event.shiftKey);
    else if (event.key === 'Escape' && searchText) onSearchText('');
    else return;
    event.preventDefault();
  };
  return (
    <div className="flex h-10 shrink-0 items-center gap-0.5 border-b px-2">
      <div className="relative mr-1 min-w-0 max-w-64 grow">
        <TextField
          type="search"
          aria-label="Find spans"
          placeholder="Find spans"
          dir="auto"
          value={searchText}
          onChange={(event) => onSearchText(event.target.value)}
          onKeyDown={handleKeyDown}
          className="h-7 !pr-14 text-[13px] [&::-webkit-search-cancel-button]:hidden"
        />
        {matches !== null && (
          <span role="status" className="absolute top-1.5 right-2 text-xs text-faint tabular-nums">
            {matches ? `${matches} found` : 'No matches'}
          </span>
        )}
      </div>
      {matches ? (
        <>
          <IconButton size="small" label="Previous match" onClick={() => onNext(true)}>
            <ChevronUp />
          </IconButton>
          <IconButton size="small" label="Next match" onClick={() => onNext(false)}>
            <ChevronDown />
          </IconButton>
        </>
      ) : null}
      {errorCount > 0 && (
        <IconButton size="small" label="Next error" onClick={onNextError} className="!text-bad">
          <CircleAlert />
        </IconButton>
      )}
      <IconButton size="small" label="Expand all" onClick={onOpenAll}>
        <ChevronsUpDown />
      </IconButton>
      <IconButton size="small" label="Collapse all" onClick={onCloseAll}>
        <ChevronsDownUp />
      </IconButton>
      <span className="grow" />
      {zoom && (
        <>
          <IconButton size="small" label="Zoom out" disabled={zoom.isFull} onClick={() => zoom.by(2)}>
            <ZoomOut />
          </IconButton>
          <IconButton size="small" label="Zoom in" onClick={() => zoom.by(0.5)}>
            <ZoomIn />
          </IconButton>
          <IconButton size="small" label="Zoom to whole trace" disabled={zoom.isFull} onClick={zoom.reset}>
            <Maximize2 />
          </IconButton>
        </>
      )}
    </div>
  );
}
