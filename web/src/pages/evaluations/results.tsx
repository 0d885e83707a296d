/** Result table with filters. */
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { X } from 'lucide-react';
import {
  useCallback,
  useEffect,
  useMemo,
  useRef,
  useState,
  type ReactNode,
  memo,
  type KeyboardEvent,
  type MouseEvent,
} from 'react';
import { useCommand } from '@/app/commands';
import { Button } from '@/components/button';
import { Select } from '@/components/form-fields';
import { parsePreview, PreviewView, SIDE_LABELS, SidePreviewCell } from '@/components/preview';
import { SearchBox } from '@/components/search-box';
import { LoadError, Loading, Spinner } from '@/components/status';
import { focusRow, handleArrowKeys, useVirtualRows } from '@/components/virtual-rows';
import { cn } from '@/lib/cn';
import { safeProse } from '@/lib/safe-text';
import { formatMilliseconds } from '@/pages/traces/detail/timeline';
import { ScoreBadge } from './badges';
import { isActive } from './format';
import {
  type Evaluation,
  resultPagesQuery,
  resultQuery,
  type ResultRow,
  EMPTY_RESULTS_QUERY,
  isFiltered,
  type SetResultsQuery,
  type ResultsQuery,
} from './queries';
import { rowNumber, ConversationView, ValueView } from './result-values';

/** Distance to the end at which the next page is fetched. */
const PREFETCH_ROWS = 30;

interface ResultsProps {
  evaluation: Evaluation;
  query: ResultsQuery;
  setQuery: SetResultsQuery;
  box: HTMLDivElement | null;
}

export function Results({ evaluation, query, setQuery, box }: ResultsProps): ReactNode {
  const { data, error, refetch, hasNextPage, isFetching, fetchNextPage, isPlaceholderData, isFetchNextPageError } =
    useInfiniteQuery(resultPagesQuery(evaluation.id, query));
  const rows = useMemo(() => data?.pages.flatMap((page) => page.data) ?? [], [data]);
  const list = useRef<HTMLDivElement>(null);
  const [active, setActive] = useState(0);
  const { virtual, margin, card } = useVirtualRows({
    list,
    box,
    count: rows.length,
    active,
    heights: { line: RESULT_LINE_HEIGHT, card: RESULT_CARD_HEIGHT },
  });
  const items = virtual.getVirtualItems();
  const lastIndex = items.at(-1)?.index ?? 0;
  useEffect(() => {
    if (hasNextPage && !isFetching && !isFetchNextPageError && lastIndex >= rows.length - PREFETCH_ROWS)
      void fetchNextPage();
  }, [hasNextPage, isFetching, isFetchNextPageError, lastIndex, rows.length, fetchNextPage]);
  const open = useCallback((cell: string) => setQuery({ ...query, cell }), [setQuery, query]);
  const move = (to: number) => {
    const index = Math.max(0, Math.min(rows.length - 1, to));
    setActive(index);
    virtual.scrollToIndex(index);
    focusRow(list.current, index);
  };
  return (
    <section aria-label="Results" className="border-t">
      <ResultFilters evaluation={evaluation} query={query} setQuery={setQuery} />
      {error && <LoadError error={error} onRetry={refetch} className="px-4 pb-3 sm:px-6" />}
      {!data && !error && <Loading className="flex justify-center py-10" />}
      {data && rows.length === 0 && (
        <div className="flex flex-col items-center gap-2 px-6 py-10 text-center text-muted">
          {isFiltered(query) ? (
            <>
              No matching results.
              <Button size="small" onClick={() => setQuery({ ...EMPTY_RESULTS_QUERY, slice: query.slice })}>
                Clear filters
              </Button>
            </>
          ) : isActive(evaluation.state) ? (
            'Waiting for the first results…'
          ) : (
            'No results.'
          )}
        </div>
      )}
      {rows.length > 0 && (
        <div
          role="grid"
          tabIndex={-1}
          aria-label="Results"
          aria-rowcount={hasNextPage ? -1 : rows.length + 1}
          aria-busy={isPlaceholderData}
          onKeyDown={(event) => handleArrowKeys(event, active, move)}
        >
          {!card && <ResultsHead />}
          <div
            ref={list}
            role="rowgroup"
            className={cn('relative transition-opacity', isPlaceholderData && 'opacity-50')}
            style={{ height: virtual.getTotalSize() }}
          >
            {items.map(({ index, key, start, size }) => {
              const row = rows[index];
              return (
                row && (
                  <div
                    key={key}
                    role="presentation"
                    className="absolute inset-x-0 top-0"
                    style={{ height: size, transform: `translateY(${start - margin}px)` }}
                  >
                    <ResultLine
                      evaluation={evaluation}
                      row={row}
                      index={index}
                      active={index === active}
                      card={card}
                      isDialogOpen={query.cell !== null}
                      open={open}
                      onActivate={setActive}
                    />
                  </div>
                )
              );
            })}
          </div>
          <div className="flex h-12 items-center justify-center gap-2 text-xs text-faint">
            {hasNextPage && !isFetchNextPageError && <Spinner label="Loading more" />}
            {isFetchNextPageError && (
              <>
                Couldn’t load more.
                <Button size="small" onClick={() => void fetchNextPage()}>
                  Retry
                </Button>
              </>
            )}
            {!hasNextPage && rows.length > 20 && 'No more results.'}
          </div>
        </div>
      )}
    </section>
  );
}

const ResultsHead = (): ReactNode => (
  <div
    role="row"
    className={cn(
      'sticky top-0 z-10 h-8 items-center border-b bg-canvas px-4 text-xs font-medium text-faint sm:px-6',
      RESULT_COLUMNS,
    )}
  >
    <span role="columnheader">Row</span>
    <span role="columnheader">Input</span>
    <span role="columnheader">Output</span>
    <span role="columnheader">Scores</span>
    <span role="columnheader" className="text-right">
      Latency
    </span>
  </div>
);

/** Fixed row heights in pixels, so that thousands of rows need no measuring. */
export const RESULT_LINE_HEIGHT = 60;
export const RESULT_CARD_HEIGHT = 128;
export const RESULT_COLUMNS =
  'grid gap-x-4 grid-cols-[minmax(6rem,9rem)_minmax(0,1fr)_minmax(0,1fr)_minmax(9rem,17rem)_4.25rem]';
/** Further scores are shown only as a count (`+3`). */
const MAX_BADGES = 6;

interface ResultLineProps {
  evaluation: Evaluation;
  row: ResultRow;
  index: number;
  /** Whether this is the focused row. */
  active: boolean;
  card: boolean;
  /** Whether a dialog is open; then nothing opens on hover. */
  isDialogOpen: boolean;
  open: (cell: string) => void;
  onActivate: (index: number) => void;
}

export const ResultLine = memo(function ResultLine({
  evaluation,
  row,
  index,
  active,
  card,
  isDialogOpen,
  open,
  onActivate,
}: ResultLineProps): ReactNode {
  const handlers = {
    // React events of portals bubble here although they are outside of the row.
    onClick: (event: MouseEvent<HTMLElement>) => {
      if (event.currentTarget.contains(event.target as Node)) open(row.id);
    },
    onKeyDown: (event: KeyboardEvent<HTMLElement>) => {
      if (event.key === 'Enter' && event.target === event.currentTarget) open(row.id);
    },
    onFocus: () => onActivate(index),
  };
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      tabIndex={active ? 0 : -1}
      data-place={index}
      {...handlers}
      className={cn(
        'h-full cursor-pointer border-b px-4 -outline-offset-2 hover:bg-sunken/60 sm:px-6',
        card ? 'flex flex-col justify-center gap-1 py-2' : cn('items-center', RESULT_COLUMNS),
        active && 'focus-within:bg-sunken/60',
      )}
    >
      {card ? (
        <Card evaluation={evaluation} row={row} />
      ) : (
        <Line evaluation={evaluation} row={row} active={active} index={index} isDialogOpen={isDialogOpen} />
      )}
    </div>
  );
});

const RowLabel = ({ evaluation, row }: { evaluation: Evaluation; row: ResultRow }): ReactNode => {
  const hasVariants = evaluation.variants.length > 1;
  const repeat = evaluation.repeats > 1 ? `repeat ${row.repeat + 1}` : '';
  return (
    <>
      <span className="block truncate text-[13px] font-medium tabular-nums">Row {rowNumber(row.id, evaluation)}</span>
      <span dir="auto" className="block truncate text-xs text-muted">
        {safeProse([hasVariants && row.variant, repeat].filter(Boolean).join(', '))}
      </span>
    </>
  );
};

type LineProps = Pick<ResultLineProps, 'evaluation' | 'row' | 'active' | 'index' | 'isDialogOpen'>;

function Line(props: LineProps): ReactNode {
  const { evaluation, row } = props;
  return (
    <>
      <div role="gridcell" className="min-w-0">
        <RowLabel evaluation={evaluation} row={row} />
      </div>
      <div role="gridcell" className="min-w-0 text-muted">
        <Side {...props} side="in" />
      </div>
      <div role="gridcell" className="min-w-0">
        {row.error ? <FailureText row={row} /> : <Side {...props} side="out" />}
      </div>
      <div role="gridcell" className="min-w-0">
        <Badges row={row} showNames={evaluation.evaluators.length <= 3} />
      </div>
      <div role="gridcell" className="truncate text-right text-[13px] tabular-nums">
        {row.latency_seconds === null ? (
          <span aria-hidden className="text-faint">
            –
          </span>
        ) : (
          formatMilliseconds(row.latency_seconds * 1000)
        )}
      </div>
    </>
  );
}

function Card({ evaluation, row }: { evaluation: Evaluation; row: ResultRow }): ReactNode {
  const text = (side: 'in' | 'out') => safeProse(parsePreview(row[side]).text ?? '') || 'Empty';
  return (
    <>
      <div role="gridcell" className="flex min-w-0 items-baseline gap-2">
        <RowLabel evaluation={evaluation} row={row} />
      </div>
      <div role="gridcell" className="min-w-0">
        <span dir="auto" className="block truncate text-muted">
          <span className="sr-only">Input: </span>
          {text('in')}
        </span>
        {row.error ? (
          <FailureText row={row} />
        ) : (
          <span dir="auto" className="block truncate">
            <span className="sr-only">Output: </span>
            {text('out')}
          </span>
        )}
      </div>
      <div role="gridcell" className="min-w-0">
        <Badges row={row} showNames />
      </div>
    </>
  );
}

const FailureText = ({ row }: { row: ResultRow }): ReactNode => (
  <span dir="auto" className="block truncate text-bad" title={row.error?.message}>
    {safeProse(row.error?.message ?? 'The run failed.')}
  </span>
);

function Badges({ row, showNames }: { row: ResultRow; showNames: boolean }): ReactNode {
  const hiddenCount = row.scores.length - MAX_BADGES;
  return (
    <span className="flex max-h-11 min-w-0 flex-wrap gap-1 overflow-hidden">
      {row.scores.slice(0, MAX_BADGES).map((score) => (
        <ScoreBadge key={score.evaluator} score={score} showName={showNames} />
      ))}
      {hiddenCount > 0 && <span className="text-xs text-faint">+{hiddenCount}</span>}
    </span>
  );
}

function Side({ evaluation, row, side, active, index, isDialogOpen }: LineProps & { side: 'in' | 'out' }): ReactNode {
  const preview = parsePreview(row[side]);
  if (isDialogOpen)
    return (
      <span dir="auto" className="block truncate">
        {safeProse(preview.text ?? '') || 'Empty'}
      </span>
    );
  return (
    <SidePreviewCell
      // oxlint-disable-next-line react/no-unstable-nested-components -- it is called, not mounted
      renderFull={() => <FullValue evaluation={evaluation.id} row={row} side={side} />}
      side={side}
      row={index}
      active={active}
      preview={preview}
    />
  );
}

/** The whole conversation of one side, fetched when shown. */
function FullValue({ evaluation, row, side }: { evaluation: string; row: ResultRow; side: 'in' | 'out' }): ReactNode {
  const { data, isPlaceholderData } = useQuery(resultQuery(evaluation, row.id));
  const preview = parsePreview(row[side]);
  if (!data || isPlaceholderData)
    return (
      <div className="flex w-144 max-w-full flex-col gap-2">
        <PreviewView preview={preview} isExpanded />
        <Spinner />
      </div>
    );
  const messages = side === 'in' ? data.history : data.messages;
  return (
    <div className="w-144 max-w-full">
      {messages.length > 0 ? (
        <ConversationView messages={messages} label={SIDE_LABELS[side]} />
      ) : (
        <ValueView value={side === 'in' ? data.inputs : (data.value ?? data.text)} label={SIDE_LABELS[side]} />
      )}
    </div>
  );
}

const FIELD = '!h-8 !w-auto max-w-44 min-w-0 text-[13px]';
const OUTCOMES = { '': 'Any outcome', yes: 'Passed', no: 'Failed', failed: 'Run failed', error: 'Evaluator error' };

/** Filters, stored in the URL. */
export function ResultFilters({
  evaluation,
  query,
  setQuery,
}: {
  evaluation: Evaluation;
  query: ResultsQuery;
  setQuery: SetResultsQuery;
}): ReactNode {
  const field = useRef<HTMLInputElement>(null);
  useCommand({
    id: 'results-search',
    title: 'Search results',
    group: 'Evaluations',
    keys: '/',
    run: () => field.current?.focus(),
  });
  const outcome =
    query.status === 'failed' || query.status === 'error'
      ? query.status
      : query.passed === null
        ? ''
        : query.passed
          ? 'yes'
          : 'no';
  const choose = (value: string) =>
    setQuery({
      ...query,
      passed: value === 'yes' ? true : value === 'no' ? false : null,
      status: value === 'failed' || value === 'error' ? value : null,
    });
  return (
    <div data-above role="group" aria-label="Filters" className="flex flex-wrap items-center gap-2 px-4 py-2.5 sm:px-6">
      <h2 className="mr-1 font-semibold">Results</h2>
      <SearchBox
        value={query.search}
        onChange={(search) => setQuery({ ...query, search }, { replace: true })}
        field={field}
        placeholder="Search inputs and outputs"
      />
      {evaluation.variants.length > 1 && (
        <FilterChoice
          label="Variant"
          allLabel="All variants"
          value={query.variant}
          options={evaluation.variants.map(({ name }) => name)}
          onChange={(variant) => setQuery({ ...query, variant })}
        />
      )}
      {evaluation.evaluators.length > 1 && (
        <FilterChoice
          label="Evaluator"
          allLabel="All evaluators"
          value={query.evaluator}
          options={evaluation.evaluators.map(({ name }) => name)}
          onChange={(evaluator) => setQuery({ ...query, evaluator })}
        />
      )}
      <Select aria-label="Outcome" className={FIELD} value={outcome} onChange={(event) => choose(event.target.value)}>
        {Object.entries(OUTCOMES).map(([value, title]) => (
          <option key={value} value={value}>
            {title}
          </option>
        ))}
      </Select>
      {(evaluation.repeats > 1 || query.flaky) && (
        <Button
          aria-pressed={query.flaky}
          className={query.flaky ? '!border-accent !text-accent' : ''}
          onClick={() => setQuery({ ...query, flaky: !query.flaky })}
        >
          Flaky
        </Button>
      )}
      {isFiltered(query) && (
        <Button variant="quiet" onClick={() => setQuery({ ...EMPTY_RESULTS_QUERY, slice: query.slice })}>
          <X aria-hidden className="size-4" />
          Clear
        </Button>
      )}
    </div>
  );
}

interface FilterChoiceProps {
  label: string;
  allLabel: string;
  value: string | null;
  options: readonly string[];
  onChange: (value: string | null) => void;
}

function FilterChoice({ label, allLabel, value, options, onChange }: FilterChoiceProps): ReactNode {
  return (
    <Select
      aria-label={label}
      className={FIELD}
      value={value ?? ''}
      onChange={(event) => onChange(event.target.value || null)}
    >
      <option value="">{allLabel}</option>
      {value && !options.includes(value) && <option>{value}</option>}
      {options.map((option) => (
        <option key={option}>{option}</option>
      ))}
    </Select>
  );
}
