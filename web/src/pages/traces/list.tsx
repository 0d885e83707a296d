/** /traces: table of traces or spans with a query in the URL. */
import { useQuery } from '@tanstack/react-query';
import { ChartColumn, ChevronUp, Filter, RefreshCw, ListTree, SearchX } from 'lucide-react';
import { useEffect, useLayoutEffect, useMemo, useRef, useState, type ReactNode, type RefObject } from 'react';
import { Link } from 'wouter';
import { ApiError } from '@/api/client';
import { queryClient } from '@/api/queries';
import { sessionQuery } from '@/app/auth';
import { useCommand } from '@/app/commands';
import { Button, IconButton, CopyButton } from '@/components/button';
import { SegmentedControl } from '@/components/form-fields';
import { SearchBox } from '@/components/search-box';
import { EmptyState, Loading, ErrorMessage } from '@/components/status';
import { showError } from '@/components/toast';
import { cn } from '@/lib/cn';
import { useTitle } from '@/lib/hooks';
import { createStoredChoice } from '@/lib/preferences';
import { SERVER_ROOT } from '@/lib/server-path';
import { TraceCharts } from './charts';
import { ConditionChips, ConditionEditor } from './condition-editor';
import { traceStatsQuery, anyTraceQuery } from './queries';
import { type TraceRow, useLiveRows } from './rows';
import { TraceTable } from './table';
import { TimeMenu } from './time-menu';
import { type TraceQuery, useTraceQuery, EMPTY_QUERY, RANGES } from './trace-query';
import { ViewsMenu } from './views-menu';

const useChartsState = createStoredChoice('palaver.traces.plots', ['open', 'folded']);
const useLiveState = createStoredChoice('palaver.traces.live', ['off', 'on']);
const ROW_LABELS = { traces: 'Traces', spans: 'Spans' } as const;
/** Scroll positions by query, restored on returning from a trace. */
const scrollPositions = new Map<string, number>();
/** Scroll offset in pixels that still counts as the top. */
const TOP_DISTANCE_PX = 8;

export default function TracesPage(): ReactNode {
  useTitle('Traces');
  const queryState = useTraceQuery();
  const { query, setQuery } = queryState;
  const live = useLiveState() === 'on';
  const showCharts = useChartsState() === 'open' && query.rows === 'traces';
  // State instead of a ref, because children may render before the element exists.
  const [box, setBox] = useState<HTMLDivElement | null>(null);
  const field = useRef<HTMLInputElement>(null);
  const atTop = useAtTop(box);
  const liveRows = useLiveRows(query, live, atTop);
  const seenValues = useSeenValues(liveRows.rows);
  const change = (next: TraceQuery) => setQuery(next);
  const refresh = () =>
    Promise.all([
      liveRows.checkNow(),
      showCharts && queryClient.fetchQuery({ ...traceStatsQuery(query), staleTime: 0 }),
    ]);
  const toggleLive = () => useLiveState.setState(live ? 'off' : 'on');
  useCommand({
    id: 'traces-search',
    title: 'Search traces',
    group: 'Traces',
    keys: '/',
    run: () => field.current?.focus(),
  });
  useCommand({
    id: 'traces-live',
    title: live ? 'Stop following new traces' : 'Follow new traces live',
    group: 'Traces',
    run: toggleLive,
  });
  return (
    <div ref={setBox} className="@container h-full overflow-y-auto [overflow-anchor:none]">
      <header data-above className="flex items-center gap-1 px-4 pt-3">
        <h1 className="grow text-xl font-semibold">Traces</h1>
        <ViewsMenu queryState={queryState} />
        {query.rows === 'traces' && (
          <IconButton
            label={showCharts ? 'Hide charts' : 'Show charts'}
            aria-pressed={showCharts}
            onClick={() => useChartsState.setState(showCharts ? 'folded' : 'open')}
          >
            <ChartColumn />
          </IconButton>
        )}
        <IconButton label="Refresh" onClick={() => void refresh().catch(showError)}>
          <RefreshCw />
        </IconButton>
        <LiveButton live={live} onClick={toggleLive} />
      </header>
      <QueryBar query={query} setQuery={setQuery} seenValues={seenValues} field={field} />
      <div data-above>
        <ConditionChips query={query} seenValues={seenValues} onChange={change} />
        {showCharts && !liveRows.error && (liveRows.waiting || liveRows.rows.length > 0) && (
          <TraceCharts query={query} live={live} onChange={change} />
        )}
        {liveRows.error && (
          <div className="px-4 pb-3">
            <RowsError
              error={liveRows.error}
              onClear={() => change({ ...query, search: '', any: false, conditions: [] })}
              onRetry={liveRows.retry}
            />
          </div>
        )}
      </div>
      {!atTop && liveRows.newRows.count > 0 && (
        <NewRowsButton
          newRows={liveRows.newRows}
          onClick={() => {
            liveRows.showNewRows();
            box?.scrollTo({ top: 0 });
          }}
        />
      )}
      {liveRows.waiting && <Loading className="flex justify-center py-16" />}
      {!liveRows.waiting && !liveRows.error && !liveRows.isPrevious && liveRows.rows.length === 0 && (
        <NoRows query={query} onChange={change} />
      )}
      {liveRows.rows.length > 0 && (
        <>
          <TraceTable
            key={query.rows}
            rows={liveRows.rows}
            kind={query.rows}
            box={box}
            isStale={liveRows.isPrevious}
            hasMore={liveRows.hasMore}
            isFetching={liveRows.fetching}
            onMore={liveRows.fetchMore}
            hasFailed={liveRows.error !== null && liveRows.nextPageFailed}
          />
          <RestoreScroll storageKey={window.location.search} box={box} />
        </>
      )}
    </div>
  );
}

/** Offers to clear the filters where they are at fault, else to try again. */
const RowsError = ({
  error,
  onClear,
  onRetry,
}: {
  error: Error;
  onClear: () => void;
  onRetry: () => void;
}): ReactNode => (
  <ErrorMessage error={error}>
    {isQueryError(error) ? (
      <Button size="small" onClick={onClear}>
        Clear filters
      </Button>
    ) : (
      <Button size="small" onClick={onRetry}>
        Retry
      </Button>
    )}
  </ErrorMessage>
);

/** Whether the query is at fault, so that a retry is useless. */
const isQueryError = (error: Error): boolean => error instanceof ApiError && error.status >= 400 && error.status < 500;

interface QueryBarProps {
  query: TraceQuery;
  setQuery: ReturnType<typeof useTraceQuery>['setQuery'];
  seenValues: Readonly<Record<string, readonly string[]>>;
  field: RefObject<HTMLInputElement | null>;
}

function QueryBar({ query, setQuery, seenValues, field }: QueryBarProps): ReactNode {
  return (
    <div
      data-above
      className="z-20 flex flex-wrap items-center gap-2 bg-canvas px-4 py-2.5 @3xl:sticky @3xl:top-0 @3xl:flex-nowrap"
    >
      <SearchBox
        value={query.search}
        onChange={(search) => setQuery({ ...query, search }, { replace: true })}
        field={field}
      />
      <SegmentedControl
        label="Rows"
        options={ROW_LABELS}
        value={query.rows}
        onChange={(rows) => setQuery({ ...query, rows })}
      />
      <TimeMenu key={`${query.from} ${query.to}`} query={query} onChange={(next) => setQuery(next)} />
      <ConditionEditor
        seenValues={seenValues}
        onDone={(condition) => setQuery({ ...query, conditions: [...query.conditions, condition] })}
        trigger={
          <Button>
            <Filter aria-hidden className="size-4 text-faint" />
            <span className="max-sm:sr-only">Filter</span>
          </Button>
        }
      />
    </div>
  );
}

function LiveButton({ live, onClick }: { live: boolean; onClick: () => void }): ReactNode {
  return (
    <Button variant="quiet" aria-pressed={live} onClick={onClick} className={cn(live && '!text-good')}>
      <span aria-hidden className={cn('size-2 rounded-full', live ? 'animate-pulse bg-good' : 'bg-strong-line')} />
      Live
    </Button>
  );
}

/** Shows the number of new rows. Takes no space, so that nothing moves. */
function NewRowsButton({
  newRows,
  onClick,
}: {
  newRows: { count: number; mayBeMore: boolean };
  onClick: () => void;
}): ReactNode {
  return (
    <div className="sticky top-3 z-20 flex h-0 justify-center @3xl:top-24">
      <button
        type="button"
        onClick={onClick}
        className={cn(
          'flex h-7 items-center gap-1.5 rounded-full bg-accent px-3',
          'text-[13px] font-medium text-accent-ink shadow-float',
        )}
      >
        <ChevronUp aria-hidden className="size-3.5" />
        {newRows.count}
        {newRows.mayBeMore && '+'} new
      </button>
    </div>
  );
}

function useAtTop(box: HTMLDivElement | null): boolean {
  const [atTop, setAtTop] = useState(() => (scrollPositions.get(window.location.search) ?? 0) < TOP_DISTANCE_PX);
  useEffect(() => {
    const updateAtTop = () => box && setAtTop(box.scrollTop < TOP_DISTANCE_PX);
    box?.addEventListener('scroll', updateAtTop, { passive: true });
    return () => box?.removeEventListener('scroll', updateAtTop);
  }, [box]);
  return atTop;
}

/** Restores and stores the scroll position. Rendered after the table, which scrolls to the top first. */
function RestoreScroll({ storageKey, box }: { storageKey: string; box: HTMLDivElement | null }): ReactNode {
  useLayoutEffect(() => {
    if (!box) return undefined;
    const savedTop = scrollPositions.get(storageKey);
    if (savedTop !== undefined) box.scrollTo({ top: savedTop });
    const savePosition = () => scrollPositions.set(storageKey, box.scrollTop);
    box.addEventListener('scroll', savePosition, { passive: true });
    return () => box.removeEventListener('scroll', savePosition);
  }, [storageKey, box]);
  return null;
}

/** Values in the loaded rows, as suggestions. */
function useSeenValues(rows: readonly TraceRow[]): Readonly<Record<string, readonly string[]>> {
  return useMemo(() => {
    const valuesOf = (pick: (row: TraceRow) => string | null): string[] =>
      [
        ...new Set(
          rows
            .slice(0, 500)
            .map(pick)
            .filter((value) => value !== null),
        ),
      ].slice(0, 50);
    return {
      workflow: valuesOf((row) => row.workflow),
      name: valuesOf((row) => row.name),
      model: valuesOf((row) => row.model),
      provider: valuesOf((row) => row.provider),
      session: valuesOf((row) => row.session),
      user: valuesOf((row) => row.user),
      service: valuesOf((row) => row.service),
    };
  }, [rows]);
}

export function NoRows({ query, onChange }: { query: TraceQuery; onChange: (query: TraceQuery) => void }): ReactNode {
  const { data: hasTraces, error } = useQuery(anyTraceQuery());
  if (hasTraces === undefined && !error) return <Loading className="flex justify-center py-16" />;
  return hasTraces === false ? <NoTraces /> : <NoMatches query={query} onChange={onChange} />;
}

function NoMatches({ query, onChange }: { query: TraceQuery; onChange: (query: TraceQuery) => void }): ReactNode {
  const isFiltered = query.conditions.length > 0 || query.search.trim() !== '';
  const isRangeLimited = query.range !== 'all';
  return (
    <EmptyState icon={<SearchX aria-hidden />} title={isFiltered ? `No matching ${query.rows}` : `No ${query.rows}`}>
      {isRangeLimited && <p>{query.range === 'custom' ? 'In this time range' : RANGES[query.range]}</p>}
      <div className="flex flex-wrap justify-center gap-2 pt-3">
        {isFiltered && (
          <Button onClick={() => onChange({ ...query, search: '', any: false, conditions: [] })}>Clear filters</Button>
        )}
        {isRangeLimited && (
          <Button onClick={() => onChange({ ...query, range: 'all', from: null, to: null })}>Show all time</Button>
        )}
        {!isFiltered && !isRangeLimited && <Button onClick={() => onChange(EMPTY_QUERY)}>Start over</Button>}
      </div>
    </EmptyState>
  );
}

function NoTraces(): ReactNode {
  const { data } = useQuery(sessionQuery());
  const lines = [
    `export OTEL_EXPORTER_OTLP_ENDPOINT=${window.location.origin}${SERVER_ROOT}`,
    'export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf',
    ...(data?.key ? ["export OTEL_EXPORTER_OTLP_HEADERS='Authorization=Bearer YOUR_KEY'"] : []),
  ];
  return (
    <EmptyState icon={<ListTree aria-hidden />} title="No traces yet">
      <p>
        Every run creates a trace. To see one,{' '}
        <Link href="/play" className="text-accent underline underline-offset-2">
          run a workflow in the playground
        </Link>
        .
      </p>
      <p className="pt-4">Or send traces from any program instrumented with OpenTelemetry:</p>
      <div className="relative my-3 rounded-xl border bg-surface text-left">
        <pre className="overflow-x-auto px-4 py-3 pr-10 font-mono text-[13px] text-ink">{lines.join('\n')}</pre>
        <CopyButton text={lines.join('\n')} className="absolute top-1.5 right-1.5" />
      </div>
    </EmptyState>
  );
}
