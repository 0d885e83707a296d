/** /evaluations: list of evaluations, newest first, and the dialog for a new one. */
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useVirtualizer } from '@tanstack/react-virtual';
import { FlaskConical, Plus, TriangleAlert } from 'lucide-react';
import { lazy, Suspense, useEffect, useRef, useState, type ReactNode } from 'react';
import { useSearchParams, Link, useLocation } from 'wouter';
import { useCommand } from '@/app/commands';
import { Button } from '@/components/button';
import { TextField } from '@/components/form-fields';
import { EmptyState, LoadError, Loading, Spinner } from '@/components/status';
import { cn } from '@/lib/cn';
import { formatAge, formatDateTime, pluralize } from '@/lib/format';
import { useTitle, useDebounced } from '@/lib/hooks';
import { safeProse } from '@/lib/safe-text';
import { IntervalBar, ProgressBar, StateBadge } from './badges';
import { evaluatorFigure, formatFigure, isActive, evaluationTitle } from './format';
import { evaluationPagesQuery, listSummaryQuery, type EvaluationRow } from './queries';

const NewDialog = lazy(() => import('./new-dialog'));
/** Narrower lists show cards. */
const CARD_BREAKPOINT_PX = 900;

export default function EvaluationsPage(): ReactNode {
  useTitle('Evaluations');
  const [params, setParams] = useSearchParams();
  const [searchText, setSearchText] = useState('');
  const search = useDebounced(searchText.trim(), 250);
  const testset = params.get('testset');
  const isNew = params.get('new') === '1';
  const { data, error, refetch, hasNextPage, isFetching, fetchNextPage } = useInfiniteQuery(
    evaluationPagesQuery(search, isNew ? null : testset),
  );
  const rows = data?.pages.flatMap((page) => page.data) ?? [];
  const box = useRef<HTMLDivElement>(null);
  const card = useIsNarrow(box);
  const height = card ? CARD_HEIGHT : LINE_HEIGHT;
  // oxlint-disable-next-line react/incompatible-library -- no memoized component receives the virtualizer
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => height,
    overscan: 6,
  });
  const lastIndex = virtual.getVirtualItems().at(-1)?.index ?? 0;
  useEffect(() => {
    if (hasNextPage && !isFetching && lastIndex >= rows.length - 10) void fetchNextPage();
  }, [lastIndex, rows.length, hasNextPage, isFetching, fetchNextPage]);
  useEffect(() => virtual.measure(), [virtual, height]);
  const open = () => setParams({ new: '1', ...(testset ? { testset } : {}) });
  useCommand({ id: 'new-evaluation', title: 'New evaluation', group: 'Evaluations', run: open });
  return (
    <div className="flex h-full flex-col">
      <header className="flex shrink-0 flex-wrap items-center gap-2 border-b bg-surface px-4 py-2.5 sm:px-6">
        <h1 className="text-base font-semibold">Evaluations</h1>
        {testset && !isNew && (
          <Button size="small" variant="quiet" onClick={() => setParams({})}>
            Filtered by test set. Show all
          </Button>
        )}
        <TextField
          type="search"
          aria-label="Find an evaluation"
          placeholder="Find by name"
          dir="auto"
          value={searchText}
          onChange={(event) => setSearchText(event.target.value)}
          className="ml-auto w-auto max-w-72 min-w-32 grow"
        />
        <Button variant="main" onClick={open}>
          <Plus aria-hidden className="size-4" />
          New evaluation
        </Button>
      </header>
      <div ref={box} className="min-h-0 grow overflow-y-auto">
        {error && <LoadError error={error} onRetry={refetch} className="p-4" />}
        {!data && !error && <Loading className="p-6" />}
        {data && rows.length === 0 && <NoEvaluations search={search} onNew={open} />}
        {rows.length > 0 && (
          <div role="table" aria-label="Evaluations" aria-rowcount={hasNextPage ? -1 : rows.length + 1}>
            {!card && <EvaluationListHead />}
            <div role="rowgroup" className="relative" style={{ height: virtual.getTotalSize() }}>
              {virtual.getVirtualItems().map(({ index, start }) => {
                const row = rows[index];
                return row && <EvaluationListRow key={row.id} row={row} top={start} card={card} />;
              })}
            </div>
          </div>
        )}
        {hasNextPage && (
          <div className="flex justify-center p-3">
            <Spinner label="Loading more" />
          </div>
        )}
      </div>
      {isNew && (
        <Suspense>
          <NewDialog testset={testset} template={params.get('like')} onClose={() => setParams({})} />
        </Suspense>
      )}
    </div>
  );
}

function NoEvaluations({ search, onNew }: { search: string; onNew: () => void }): ReactNode {
  if (search) return <EmptyState title="No matching evaluations">Search covers evaluation names only.</EmptyState>;
  return (
    <EmptyState title="No evaluations yet" icon={<FlaskConical />}>
      <p>An evaluation runs a test set against one or more workflows, scores their answers and shows what got worse.</p>
      <p className="my-4">
        <Button variant="main" onClick={onNew}>
          <Plus aria-hidden className="size-4" />
          New evaluation
        </Button>
      </p>
      <p className="text-[13px]">
        Or run one in a terminal:{' '}
        <code className="font-mono text-xs wrap-anywhere">
          palaver eval app.py cases.csv <span className="whitespace-nowrap">--evaluator</span> exact_match
        </code>
      </p>
    </EmptyState>
  );
}

function useIsNarrow(box: React.RefObject<HTMLDivElement | null>): boolean {
  const [narrow, setNarrow] = useState(false);
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const measure = () => setNarrow(element.clientWidth < CARD_BREAKPOINT_PX);
    measure();
    const observer = new ResizeObserver(measure);
    observer.observe(element);
    return () => observer.disconnect();
  }, [box]);
  return narrow;
}

/** Row heights in pixels. */
export const LINE_HEIGHT = 84;
export const CARD_HEIGHT = 164;
const COLUMNS = 'grid grid-cols-[minmax(0,1.3fr)_minmax(0,1fr)_9rem_minmax(0,1.2fr)_5rem] gap-x-4';

export const EvaluationListHead = (): ReactNode => (
  <div
    role="row"
    className={cn(
      'sticky top-0 z-10 h-8 items-center border-b bg-canvas px-4 text-xs font-medium text-faint sm:px-6',
      COLUMNS,
    )}
  >
    <span role="columnheader">Name</span>
    <span role="columnheader">Variants</span>
    <span role="columnheader">Status</span>
    <span role="columnheader">Result</span>
    <span role="columnheader" className="text-right">
      Started
    </span>
  </div>
);

interface Props {
  row: EvaluationRow;
  top: number;
  card: boolean;
}

export function EvaluationListRow({ row, top, card }: Props): ReactNode {
  const [, navigate] = useLocation();
  const href = `/evaluations/${row.id}`;
  const name = (
    <>
      <Link href={href} dir="auto" className="block truncate font-medium" title={evaluationTitle(row)}>
        {safeProse(evaluationTitle(row))}
      </Link>
      <span className="block truncate text-xs text-muted" dir="auto">
        {safeProse(row.testset.name)} · revision {row.testset.revision} · {pluralize(row.total, 'cell')}
      </span>
    </>
  );
  const startedAt = (
    <time dateTime={row.created_at} title={formatDateTime(row.created_at)} className="text-xs text-muted">
      {formatAge(row.created_at)}
    </time>
  );
  return (
    // The link inside is reachable by keyboard.
    // oxlint-disable-next-line jsx-a11y/click-events-have-key-events
    <div
      role="row"
      onClick={(event) => !(event.target as Element).closest('a') && navigate(href)}
      className={cn(
        'absolute inset-x-0 top-0 cursor-pointer border-b px-4 hover:bg-sunken/60 sm:px-6',
        card ? 'flex flex-col justify-center gap-1.5' : cn('items-center', COLUMNS),
      )}
      style={{ height: card ? CARD_HEIGHT : LINE_HEIGHT, transform: `translateY(${top}px)` }}
    >
      {card ? (
        <>
          <div role="cell" className="min-w-0">
            {name}
          </div>
          <div role="cell" className="flex min-w-0 items-center gap-2">
            <StateCell row={row} />
            <span className="grow" />
            {startedAt}
          </div>
          <div role="cell" className="min-w-0">
            <SummaryFigures row={row} maxFigures={2} />
          </div>
        </>
      ) : (
        <>
          <div role="cell" className="min-w-0">
            {name}
          </div>
          <div role="cell" className="min-w-0">
            <span className="block truncate text-[13px]" dir="auto" title={row.variants.join(', ')}>
              {safeProse(row.variants.join(', '))}
            </span>
            <span className="block truncate text-xs text-faint" title={row.evaluators.join(', ')}>
              {safeProse(row.evaluators.join(', '))}
            </span>
          </div>
          <div role="cell" className="min-w-0">
            <StateCell row={row} />
          </div>
          <div role="cell" className="min-w-0">
            <SummaryFigures row={row} maxFigures={3} />
          </div>
          <div role="cell" className="text-right">
            {startedAt}
          </div>
        </>
      )}
    </div>
  );
}

function StateCell({ row }: { row: EvaluationRow }): ReactNode {
  const { state, done, failed, errors, total } = row;
  const problems = [failed > 0 && `${failed} failed`, errors > 0 && pluralize(errors, 'evaluator error')]
    .filter(Boolean)
    .join(', ');
  return (
    <span className="flex min-w-0 flex-col gap-1">
      <span className="flex items-center gap-2">
        <StateBadge state={state} reason={row.reason} />
        {isActive(state) && (
          <span className="text-xs text-muted tabular-nums">
            {(done + failed).toLocaleString('en')} of {total.toLocaleString('en')}
          </span>
        )}
      </span>
      {isActive(state) ? (
        <ProgressBar state={state} done={done} failed={failed} total={total} />
      ) : (
        problems && <span className="truncate text-xs text-bad">{problems}</span>
      )}
    </span>
  );
}

/** Figures of the first variants. */
function SummaryFigures({ row, maxFigures }: { row: EvaluationRow; maxFigures: number }): ReactNode {
  const { data } = useQuery({ ...listSummaryQuery(row), enabled: row.done + row.failed > 0 });
  const figures = data?.variants.flatMap((variant) =>
    variant.evaluators.flatMap((evaluator) => {
      const figure = evaluatorFigure(evaluator);
      const { unscored } = evaluator;
      return figure || unscored > 0
        ? [
            {
              unscored,
              key: `${variant.name} ${evaluator.name}`,
              name: data.variants.length > 1 ? `${variant.name} · ${evaluator.name}` : evaluator.name,
              figure,
            },
          ]
        : [];
    }),
  );
  if (!figures?.length)
    return (
      <span aria-hidden className="text-faint">
        –
      </span>
    );
  const hiddenCount = figures.length - maxFigures;
  return (
    <span className="flex min-w-0 flex-col">
      {figures.slice(0, hiddenCount === 1 ? maxFigures + 1 : maxFigures).map(({ key, name, figure, unscored }) => (
        <span key={key} className="flex min-w-0 items-center gap-2 text-xs leading-[1.15rem]">
          {figure && (
            <>
              <IntervalBar figure={figure} className="h-3 w-14" />
              <span className="w-13 shrink-0 tabular-nums">{formatFigure(figure)}</span>
            </>
          )}
          <span className="min-w-0 truncate text-muted" dir="auto">
            {safeProse(name)}
          </span>
          {unscored > 0 && (
            <span
              className="inline-flex shrink-0 items-center gap-0.5 text-warn"
              title={`${unscored.toLocaleString('en')} not scored`}
            >
              <TriangleAlert aria-hidden className="size-3.5" />
              {unscored.toLocaleString('en')}
              <span className="sr-only"> not scored</span>
            </span>
          )}
        </span>
      ))}
      {hiddenCount > 1 && <span className="text-xs text-faint">and {hiddenCount} more</span>}
    </span>
  );
}
