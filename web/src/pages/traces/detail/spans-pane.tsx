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
import { ROW_HEIGHT, SpanRow, type ColumnWidths } from './span-row';
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
  columns: ColumnWidths;
  selected: string | null;
  onSelect: (id: string) => void;
}

export function SpansPane({ trace, tree, columns, selected, onSelect }: SpansPaneProps): ReactNode {
  const box = useRef<HTMLDivElement>(null);
  const { rows, toggle, openAll, closeAll } = useTreeRows(tree, selected);
  const { range, setRange } = useRange(tree.duration);
  const [words, setWords] = useState('');
  const matches = useSpanSearch(trace, tree, words);
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 10,
  });

  const selectedIndex = useMemo(() => rows.findIndex(({ node }) => node.id === selected), [rows, selected]);
  useEffect(() => {
    if (selectedIndex >= 0) virtual.scrollToIndex(selectedIndex, { align: 'auto' });
    // oxlint-disable-next-line react/exhaustive-deps -- only another selection moves what one sees
  }, [selected, selectedIndex < 0]);

  const goTo = (isWanted: (node: SpanNode) => boolean, back = false) => {
    const id = nextMatch(allSpans(tree), isWanted, selected, back);
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
    ({ at, duration: took }: SpanNode) =>
      setRange(clampRange({ from: at - took * 0.05, to: at + took * 1.05 }, tree.duration)),
    [setRange, tree.duration],
  );
  const errors = useMemo(() => tree.order.filter(({ status }) => status === 'error').length, [tree]);
  const zoom = {
    by: (factor: number) => setRange(zoomRange(range, tree.duration, factor)),
    all: () => setRange({ from: 0, to: tree.duration }),
    isAll: isFullRange(range, tree.duration),
  };
  return (
    <section aria-label="Spans" className="flex min-h-0 min-w-0 grow flex-col bg-surface">
      <SpansBar
        words={words}
        onWords={setWords}
        matches={matches?.size ?? null}
        onNext={(back) => goTo(({ id }) => matches?.has(id) ?? false, back)}
        errors={errors}
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
  const first = useMemo(() => initiallyOpen(tree), [tree]);
  const [all, setAll] = useState<boolean | null>(null);
  const [changed, setChanged] = useState<ReadonlyMap<string, boolean>>(() => new Map());
  const rows = useMemo(
    () =>
      visibleRows(tree, ({ id, parent }) => changed.get(id) ?? (all === null ? first.has(id) : all || parent === null)),
    [tree, first, all, changed],
  );
  const node = selected === null ? undefined : tree.spans.get(selected);
  useEffect(() => {
    if (!node) return;
    setChanged((now) => {
      const hidden = ancestors(node).filter(({ id }) => !(now.get(id) ?? (all === null ? first.has(id) : all)));
      return hidden.length ? new Map([...now, ...hidden.map(({ id }) => [id, true] as const)]) : now;
    });
    // oxlint-disable-next-line react/exhaustive-deps -- who closes what is selected means it
  }, [node]);
  const toggle = useCallback((id: string, open: boolean) => setChanged((now) => new Map([...now, [id, open]])), []);
  const set = (open: boolean) => () => {
    setAll(open);
    setChanged(new Map());
  };
  return { rows, toggle, openAll: set(true), closeAll: set(false) };
}

/** Visible time range; everything until the user selects one. */
function useRange(duration: number) {
  const [selectedRange, setSelectedRange] = useState<TimeRange | null>(null);
  const range = useMemo(() => selectedRange ?? { from: 0, to: duration }, [selectedRange, duration]);
  const setRange = useCallback((to: TimeRange) => setSelectedRange(isFullRange(to, duration) ? null : to), [duration]);
  return { range, setRange };
}

function useSpanSearch(trace: string, tree: SpanTree, words: string): ReadonlySet<string> | null {
  const matchIds = useDebounced(words.trim(), 250);
  const { data } = useQuery(spansContainingQuery(trace, matchIds));
  return useMemo(() => {
    if (!matchIds) return null;
    const ids = spansMatching(tree, matchIds);
    for (const id of data ?? []) if (tree.spans.has(id)) ids.add(id);
    return ids;
  }, [tree, matchIds, data]);
}

/** Letters typed in quick succession form a word. */
function useTypeAhead(): (letter: string) => string {
  const typed = useRef({ text: '', at: 0 });
  return (letter) => {
    const now = performance.now();
    typed.current = { text: now - typed.current.at < 700 ? typed.current.text + letter : letter, at: now };
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
  columns: ColumnWidths;
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
          {ticks(range, 4).map(({ at, label }) => {
            const share = ((at - range.from) / width) * 100;
            const isNearEnd = share > 85; // No room after it near the end.
            return (
              <span
                key={at}
                className={cn('absolute whitespace-nowrap', isNearEnd ? 'border-r pr-1' : 'border-l pl-1')}
                style={isNearEnd ? { right: `${100 - share}%` } : { left: `${share}%` }}
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
  words: string;
  onWords: (words: string) => void;
  /** Number of matches; null without a search. */
  matches: number | null;
  onNext: (back: boolean) => void;
  errors: number;
  onNextError: () => void;
  onOpenAll: () => void;
  onCloseAll: () => void;
  /** Null without a timeline. */
  zoom: { by: (factor: number) => void; all: () => void; isAll: boolean } | null;
}

/** Toolbar: search, expand, collapse, zoom. */
export function SpansBar({
  words,
  onWords,
  matches,
  onNext,
  errors,
  onNextError,
  onOpenAll,
  onCloseAll,
  zoom,
}: SpansBarProps): ReactNode {
  const handleKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'Enter') onNext(event.shiftKey);
    else if (event.key === 'Escape' && words) onWords('');
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
          value={words}
          onChange={(event) => onWords(event.target.value)}
          onKeyDown={handleKeyDown}
          className="h-7 !pr-14 text-[13px] [&::-webkit-search-cancel-button]:hidden"
        />
        {matches !== null && (
          <span role="status" className="absolute top-1.5 right-2 text-xs text-faint tabular-nums">
            {matches ? `${matches} found` : 'None'}
          </span>
        )}
      </div>
      {matches ? (
        <>
          <IconButton size="small" label="Previous found" onClick={() => onNext(true)}>
            <ChevronUp />
          </IconButton>
          <IconButton size="small" label="Next found" onClick={() => onNext(false)}>
            <ChevronDown />
          </IconButton>
        </>
      ) : null}
      {errors > 0 && (
        <IconButton size="small" label="Next error" onClick={onNextError} className="!text-bad">
          <CircleAlert />
        </IconButton>
      )}
      <IconButton size="small" label="Open all" onClick={onOpenAll}>
        <ChevronsUpDown />
      </IconButton>
      <IconButton size="small" label="Close all" onClick={onCloseAll}>
        <ChevronsDownUp />
      </IconButton>
      <span className="grow" />
      {zoom && (
        <>
          <IconButton size="small" label="Zoom out" disabled={zoom.isAll} onClick={() => zoom.by(2)}>
            <ZoomOut />
          </IconButton>
          <IconButton size="small" label="Zoom in" onClick={() => zoom.by(0.5)}>
            <ZoomIn />
          </IconButton>
          <IconButton size="small" label="Whole trace" disabled={zoom.isAll} onClick={zoom.all}>
            <Maximize2 />
          </IconButton>
        </>
      )}
    </div>
  );
}
