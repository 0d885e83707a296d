/** /evaluations: all of them, the newest first; and the dialog that begins another. */
import { useInfiniteQuery } from '@tanstack/react-query';
import { useVirtualizer } from '@tanstack/react-virtual';
import { FlaskConical, Plus } from 'lucide-react';
import { lazy, Suspense, useEffect, useRef, useState, type ReactNode } from 'react';
import { useSearchParams } from 'wouter';
import { useCommand } from '@/app/commands';
import { useTitle, useDelayed } from '@/lib/hooks';
import { Empty, Problem, Spinner } from '@/components/status';
import { Button } from '@/components/button';
import { TextField } from '@/components/form-fields';
import { CARD, LINE, ListHead, ListRow } from './list-row';
import { evaluationPages } from './queries';

const NewDialog = lazy(() => import('./new-dialog'));
/** Below this width rows are cards. */
const NARROW = 900;

export default function EvaluationsPage(): ReactNode {
  useTitle('Evaluations');
  const [params, setParams] = useSearchParams();
  const [words, setWords] = useState('');
  const search = useDelayed(words.trim(), 250);
  const testset = params.get('testset');
  const isNew = params.get('new') === '1';
  const { data, error, refetch, hasNextPage, isFetching, fetchNextPage } = useInfiniteQuery(evaluationPages(search, isNew ? null : testset));
  const rows = data?.pages.flatMap((page) => page.data) ?? [];
  const box = useRef<HTMLDivElement>(null);
  const card = useIsNarrow(box);
  const height = card ? CARD : LINE;
  // oxlint-disable-next-line react/incompatible-library -- nothing that it gives is kept for later
  const virtual = useVirtualizer({ count: rows.length, getScrollElement: () => box.current, estimateSize: () => height, overscan: 6 });
  const last = virtual.getVirtualItems().at(-1)?.index ?? 0;
  useEffect(() => {
    if (hasNextPage && !isFetching && last >= rows.length - 10) void fetchNextPage();
  }, [last, rows.length, hasNextPage, isFetching, fetchNextPage]);
  useEffect(() => virtual.measure(), [virtual, height]);
  const open = () => setParams({ new: '1', ...(testset ? { testset } : {}) });
  useCommand({ id: 'new-evaluation', title: 'New evaluation', group: 'Evaluations', run: open });
  return (
    <div className="flex h-full flex-col">
      <header className="flex shrink-0 flex-wrap items-center gap-2 border-b bg-surface px-4 py-2.5 sm:px-6">
        <h1 className="text-base font-semibold">Evaluations</h1>
        {testset && !isNew && <Button size="small" look="quiet" onClick={() => setParams({})}>Of one test set. Show all</Button>}
        <TextField type="search" aria-label="Find an evaluation" placeholder="Find by name" dir="auto" value={words} onChange={(event) => setWords(event.target.value)} className="ml-auto !w-auto max-w-72 min-w-32 grow" />
        <Button look="main" onClick={open}><Plus aria-hidden className="size-4" />New evaluation</Button>
      </header>
      <div ref={box} className="min-h-0 grow overflow-y-auto">
        {error && <div className="p-4"><Problem error={error}><Button size="small" onClick={() => void refetch()}>Try again</Button></Problem></div>}
        {!data && !error && <div className="p-6"><Spinner /></div>}
        {data && rows.length === 0 && <None search={search} onNew={open} />}
        {rows.length > 0 && (
          <div role="table" aria-label="Evaluations" aria-rowcount={hasNextPage ? -1 : rows.length + 1}>
            {!card && <ListHead />}
            <div role="rowgroup" className="relative" style={{ height: virtual.getTotalSize() }}>
              {virtual.getVirtualItems().map(({ index, start }) => {
                const row = rows[index];
                return row && <ListRow key={row.id} row={row} top={start} card={card} />;
              })}
            </div>
          </div>
        )}
        {hasNextPage && <div className="flex justify-center p-3"><Spinner label="Loading more" /></div>}
      </div>
      {isNew && <Suspense><NewDialog testset={testset} like={params.get('like')} onClose={() => setParams({})} /></Suspense>}
    </div>
  );
}

function None({ search, onNew }: { search: string; onNew: () => void }): ReactNode {
  if (search) return <Empty title="No evaluation is called that">The search looks at names.</Empty>;
  return (
    <Empty title="No evaluations yet" icon={<FlaskConical />}>
      <p>An evaluation runs a test set over one or more workflows, scores what they answer, and says whether something got worse.</p>
      <p className="my-4"><Button look="main" onClick={onNew}><Plus aria-hidden className="size-4" />New evaluation</Button></p>
      <p className="text-[13px]">
        Or in a terminal: <code className="font-mono text-xs wrap-anywhere">palaver eval app.py cases.csv --evaluator exact_match</code>
      </p>
    </Empty>
  );
}

function useIsNarrow(box: React.RefObject<HTMLDivElement | null>): boolean {
  const [narrow, setNarrow] = useState(false);
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    const look = () => setNarrow(element.clientWidth < NARROW);
    look();
    const observer = new ResizeObserver(look);
    observer.observe(element);
    return () => observer.disconnect();
  }, [box]);
  return narrow;
}
