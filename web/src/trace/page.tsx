/** /traces/{trace}: one trace. Its spans as a tree along the time, beside them what was said, or one span. */
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { SearchX } from 'lucide-react';
import { useCallback, useEffect, useMemo, useRef, useState, type ReactNode } from 'react';
import { Link, useSearchParams } from 'wouter';
import { ApiError, api } from '@/api/client';
import { queryClient } from '@/api/queries';
import { Button } from '@/components/button';
import { useGoOn, type Live } from '@/components/open-in-playground';
import { Segments } from '@/components/segmented-control';
import { Empty, Problem, Spinner } from '@/components/status';
import { tellError } from '@/components/toast';
import { useTitle, useDelayed } from '@/lib/hooks';
import { useIsWide } from '@/lib/wide';
import { ConversationPane } from './conversation-pane';
import { forestOf, type Forest } from './forest';
import { TraceHeader } from './header';
import { MOST_SPANS, skeleton, summary as read, type Summary } from './queries';
import { SpanPane } from './span-pane';
import { SpansPane } from './spans-pane';

export default function TracePage({ trace }: { trace: string }): ReactNode {
  const { data, error, refetch } = useQuery(read(trace));
  useTitle(data?.root.name ? `${data.root.name.slice(0, 80)}` : 'Trace');
  if (data) return <Trace summary={data} />;
  if (error instanceof ApiError && error.status === 404) {
    return (
      <Empty title="This trace is not here" icon={<SearchX />}>
        <p>Its spans have not arrived yet, or they were deleted when their time was over. If they arrive, they show here by themselves.</p>
        <Link href="/traces" className="mt-3 inline-block text-accent hover:underline">All traces</Link>
      </Empty>
    );
  }
  if (error) return <div className="mx-auto max-w-xl p-8"><Problem error={error}><Button size="small" onClick={() => void refetch()}>Try again</Button></Problem></div>;
  return <div className="grid h-full place-items-center"><Spinner /></div>;
}

type View = 'tree' | 'timeline' | 'talk' | 'span';

function Trace({ summary }: { summary: Summary }): ReactNode {
  const { trace_id: trace, root } = summary;
  const isWide = useIsWide();
  const [selected, select] = useSelection();
  const [view, setView] = useState<View>(selected ? 'span' : 'talk');
  const { forest, isWhole } = useForest(summary);
  const { goOn, busy, question } = useGoOn();
  const title = root.name;
  const goOnWith = useCallback((live: () => Promise<Live>) => goOn(live, title), [goOn, title]);
  const open = () => void goOnWith(() => api('post', '/api/traces/{trace}/thread', { path: { trace }, body: {} })).catch(tellError);
  const choose = useCallback(
    (id: string) => {
      select(id);
      setView('span');
    },
    [select],
  );
  const side = view === 'span' ? 'span' : 'talk';
  const spans = forest && (
    <SpansPane trace={trace} forest={forest} columns={isWide ? 'both' : view === 'timeline' ? 'timeline' : 'tree'} selected={selected} onSelect={choose} />
  );
  return (
    <div className="flex h-full min-h-0 flex-col">
      <TraceHeader summary={summary} busy={busy} onOpen={open} />
      {!isWide && (
        <div className="flex shrink-0 justify-center border-b bg-surface py-1.5">
          <Segments label="View" options={{ tree: 'Tree', timeline: 'Timeline', talk: 'Conversation', span: 'Span' }} value={view} onChange={setView} />
        </div>
      )}
      <div className="flex min-h-0 grow">
        {(isWide || view === 'tree' || view === 'timeline') && (
          <div className="flex min-w-0 grow basis-7/12 flex-col lg:border-r">
            {spans ?? <div className="p-4"><Spinner /></div>}
            {isWhole ? null : <Growing loaded={forest?.order.length ?? 0} total={summary.spans} />}
          </div>
        )}
        {(isWide || view === 'talk' || view === 'span') && (
          <div className="flex min-w-0 grow basis-5/12 flex-col">
            {isWide && (
              <div className="flex h-10 shrink-0 items-center border-b bg-surface px-3">
                <Segments label="View" options={{ talk: 'Conversation', span: 'Span' }} value={side} onChange={setView} />
              </div>
            )}
            <div className="min-h-0 grow overflow-x-hidden overflow-y-auto">
              {side === 'talk' ? <ConversationPane trace={trace} onSpan={choose} goOn={goOnWith} /> : <Chosen trace={trace} id={selected ?? root.span_id} goOn={goOnWith} />}
            </div>
          </div>
        )}
      </div>
      {question}
    </div>
  );
}

/** Whoever runs through the tree with a key held down stops somewhere: only that span is read. */
function Chosen({ trace, id, goOn }: { trace: string; id: string; goOn: (live: () => Promise<Live>) => Promise<void> }): ReactNode {
  return <SpanPane trace={trace} id={useDelayed(id, 120)} goOn={goOn} />;
}

const Growing = ({ loaded, total }: { loaded: number; total: number }): ReactNode => (
  <div role="status" className="shrink-0 border-t bg-canvas px-3 py-1 text-xs text-muted">
    {loaded >= MOST_SPANS
      ? `The first ${MOST_SPANS.toLocaleString('en')} of ${total.toLocaleString('en')} spans are shown.`
      : `${loaded.toLocaleString('en')} of ${total.toLocaleString('en')} spans so far…`}
  </div>
);

/** The spans, page after page; what is there is shown at once. */
function useForest({ trace_id: trace, spans }: Summary): { forest: Forest | null; isWhole: boolean } {
  const { data, hasNextPage, isFetching, fetchNextPage } = useInfiniteQuery(skeleton(trace));
  useEffect(() => {
    if (hasNextPage && !isFetching) void fetchNextPage();
  }, [hasNextPage, isFetching, fetchNextPage]);
  // More have come since it was read: a trace that is still running.
  const known = useRef(spans);
  useEffect(() => {
    if (known.current === spans) return;
    known.current = spans;
    void queryClient.invalidateQueries({ queryKey: ['trace', trace], predicate: ({ queryKey }) => queryKey[2] !== 'summary' });
  }, [spans, trace]);
  const isWhole = data !== undefined && !data.pages.at(-1)?.next;
  const forest = useMemo(() => (data ? forestOf(data.pages.flatMap((page) => page.data), !data.pages.at(-1)?.next) : null), [data]);
  return { forest, isWhole };
}

/** The span that is selected. The address follows a moment later: browsers refuse one that changes with every key. */
function useSelection(): [string | null, (id: string) => void] {
  const [search, setSearch] = useSearchParams();
  const address = search.get('span');
  const [seen, setSeen] = useState(address);
  const [selected, setSelected] = useState(address);
  if (address !== seen) {
    setSeen(address);
    setSelected(address);
  }
  useEffect(() => {
    if (selected === null || selected === address) return undefined;
    const timer = setTimeout(() => setSearch({ span: selected }, { replace: true }), 250);
    return () => clearTimeout(timer);
  }, [selected, address, setSearch]);
  return [selected, setSelected];
}
