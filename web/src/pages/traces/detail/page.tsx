/** /traces/{trace}: span tree with timeline, and the conversation or one span. */
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import {
  SearchX,
  ChevronDown,
  Download,
  History,
  Link2,
  ListPlus,
  MessageSquareShare,
  MessagesSquare,
} from 'lucide-react';
import { useCallback, useEffect, useMemo, useRef, useState, type ReactNode, useSyncExternalStore } from 'react';
import { Link, useSearchParams } from 'wouter';
import { ApiError, api } from '@/api/client';
import { queryClient, runQuery } from '@/api/queries';
import { addToTestSet } from '@/components/add-to-testset';
import { BackLink, Button, IconButton, CopyButton } from '@/components/button';
import { SegmentedControl } from '@/components/form-fields';
import { Menu, MenuItem } from '@/components/menu';
import { stepItems, type StepItem, ConversationSteps } from '@/components/messages/conversation-steps';
import { useOpenInPlayground, type PlaygroundTarget } from '@/components/open-in-playground';
import { Badge, EmptyState, LoadError, Loading, ErrorMessage, Spinner } from '@/components/status';
import { showError, showToast } from '@/components/toast';
import { copyText } from '@/lib/dom';
import { formatDateTime, formatCompactNumber, formatDollars, formatSize } from '@/lib/format';
import { useTitle, useDebounced } from '@/lib/hooks';
import { safeExact } from '@/lib/safe-text';
import { serverPath } from '@/lib/server-path';
import {
  MAX_SPANS,
  traceSkeletonQuery,
  traceQuery,
  type Summary,
  isRunning,
  traceConversationQuery,
} from '@/pages/traces/queries';
import { sessionPath } from '@/pages/traces/span-facts';
import { statusLabel } from '@/pages/traces/span-kind';
import { TruncatedNotice } from './span-content';
import { SpanPane } from './span-pane';
import { buildSpanTree, type SpanTree } from './span-tree';
import { SpansPane } from './spans-pane';
import { formatMilliseconds } from './timeline';

export default function TracePage({ trace }: { trace: string }): ReactNode {
  const { data, error, refetch } = useQuery(traceQuery(trace));
  useTitle(data?.root.name ? `${data.root.name.slice(0, 80)}` : 'Trace');
  if (data) return <TraceView summary={data} />;
  if (error instanceof ApiError && error.status === 404) {
    return (
      <EmptyState title="Trace not found" icon={<SearchX />}>
        <p>
          Its spans have not arrived yet, or were deleted by the retention policy. This page updates when they arrive.
        </p>
        <Link href="/traces" className="mt-3 inline-block text-accent hover:underline">
          All traces
        </Link>
      </EmptyState>
    );
  }
  if (error) return <LoadError error={error} onRetry={refetch} className="mx-auto max-w-xl p-8" />;
  return <Loading className="grid h-full place-items-center" />;
}

type View = 'tree' | 'timeline' | 'talk' | 'span';

function TraceView({ summary }: { summary: Summary }): ReactNode {
  const { trace_id: trace, root } = summary;
  const isWide = useIsWide();
  const [selected, select] = useSelection();
  const [view, setView] = useState<View>(selected ? 'span' : 'talk');
  const { tree, isComplete } = useSpanTree(summary);
  const { open: openInPlayground, busy, workflowDialog } = useOpenInPlayground();
  const title = root.name;
  const openTarget = useCallback(
    (load: () => Promise<PlaygroundTarget>) => openInPlayground(load, title),
    [openInPlayground, title],
  );
  const open = () =>
    void openTarget(() => api('post', '/api/traces/{trace}/thread', { path: { trace }, body: {} })).catch(showError);
  const choose = useCallback(
    (id: string) => {
      select(id);
      setView('span');
    },
    [select],
  );
  const side = view === 'span' ? 'span' : 'talk';
  const spans = tree && (
    <SpansPane
      trace={trace}
      tree={tree}
      columns={isWide ? 'both' : view === 'timeline' ? 'timeline' : 'tree'}
      selected={selected}
      onSelect={choose}
    />
  );
  return (
    <div className="flex h-full min-h-0 flex-col">
      <TraceHeader summary={summary} busy={busy} onOpen={open} />
      {!isWide && (
        <div className="flex shrink-0 justify-center border-b bg-surface py-1.5">
          <SegmentedControl
            label="View"
            options={{ tree: 'Tree', timeline: 'Timeline', talk: 'Conversation', span: 'Span' }}
            value={view}
            onChange={setView}
          />
        </div>
      )}
      <div className="flex min-h-0 grow">
        {(isWide || view === 'tree' || view === 'timeline') && (
          <div className="flex min-w-0 grow basis-7/12 flex-col lg:border-r">
            {spans ?? <Loading className="p-4" />}
            {isComplete ? null : <PartialSpansNote loaded={tree?.order.length ?? 0} total={summary.spans} />}
          </div>
        )}
        {(isWide || view === 'talk' || view === 'span') && (
          <div className="flex min-w-0 grow basis-5/12 flex-col">
            {isWide && (
              <div className="flex h-10 shrink-0 items-center border-b bg-surface px-3">
                <SegmentedControl
                  label="View"
                  options={{ talk: 'Conversation', span: 'Span' }}
                  value={side}
                  onChange={setView}
                />
              </div>
            )}
            <div className="min-h-0 grow overflow-x-hidden overflow-y-auto">
              {side === 'talk' ? (
                <ConversationPane trace={trace} onSpan={choose} openInPlayground={openTarget} />
              ) : (
                <SelectedPane trace={trace} id={selected ?? root.span_id} openInPlayground={openTarget} />
              )}
            </div>
          </div>
        )}
      </div>
      {workflowDialog}
    </div>
  );
}

/** Debounced: holding an arrow key must not fetch every span. */
function SelectedPane({
  trace,
  id,
  openInPlayground,
}: {
  trace: string;
  id: string;
  openInPlayground: (load: () => Promise<PlaygroundTarget>) => Promise<void>;
}): ReactNode {
  return <SpanPane trace={trace} id={useDebounced(id, 120)} openInPlayground={openInPlayground} />;
}

const PartialSpansNote = ({ loaded, total }: { loaded: number; total: number }): ReactNode => (
  <div role="status" className="shrink-0 border-t bg-canvas px-3 py-1 text-xs text-muted">
    {loaded >= MAX_SPANS
      ? `Showing the first ${MAX_SPANS.toLocaleString('en')} of ${total.toLocaleString('en')} spans.`
      : `Loading spans: ${loaded.toLocaleString('en')} of ${total.toLocaleString('en')}…`}
  </div>
);

/** Load all pages of the trace's span skeleton; returns the tree of the spans loaded so far. */
function useSpanTree({ trace_id: trace, spans }: Summary): { tree: SpanTree | null; isComplete: boolean } {
  const { data, hasNextPage, isFetching, fetchNextPage } = useInfiniteQuery(traceSkeletonQuery(trace));
  useEffect(() => {
    if (hasNextPage && !isFetching) void fetchNextPage();
  }, [hasNextPage, isFetching, fetchNextPage]);
  // Refetch when a running trace has received more spans.
  const knownSpans = useRef(spans);
  useEffect(() => {
    if (knownSpans.current === spans) return;
    knownSpans.current = spans;
    void queryClient.invalidateQueries({
      queryKey: ['trace', trace],
      predicate: ({ queryKey }) => queryKey[2] !== 'summary',
    });
  }, [spans, trace]);
  const isComplete = data !== undefined && !data.pages.at(-1)?.next;
  const tree = useMemo(
    () =>
      data
        ? buildSpanTree(
            data.pages.flatMap((page) => page.data),
            !data.pages.at(-1)?.next,
          )
        : null,
    [data],
  );
  return { tree, isComplete };
}

/** Selected span. The URL follows with a delay, because browsers rate-limit history changes. */
function useSelection(): [string | null, (id: string) => void] {
  const [search, setSearch] = useSearchParams();
  const urlSpan = search.get('span');
  const [lastUrlSpan, setLastUrlSpan] = useState(urlSpan);
  const [selected, setSelected] = useState(urlSpan);
  if (urlSpan !== lastUrlSpan) {
    setLastUrlSpan(urlSpan);
    setSelected(urlSpan);
  }
  useEffect(() => {
    if (selected === null || selected === urlSpan) return undefined;
    const timer = setTimeout(() => setSearch({ span: selected }, { replace: true }), 250);
    return () => clearTimeout(timer);
  }, [selected, urlSpan, setSearch]);
  return [selected, setSelected];
}

interface TraceHeaderProps {
  summary: Summary;
  busy: boolean;
  onOpen: () => void;
}

export function TraceHeader({ summary, busy, onOpen }: TraceHeaderProps): ReactNode {
  const { root, trace_id: id } = summary;
  return (
    <header className="shrink-0 border-b bg-surface px-4 py-2.5">
      <div className="flex flex-wrap items-center gap-x-2 gap-y-1">
        <BackLink href="/traces" label="All traces" />
        <h1 className="min-w-0 truncate text-base font-semibold">
          <bdi>{safeExact(root.name).slice(0, 300) || 'unnamed'}</bdi>
        </h1>
        <Badge tone={root.status === 'error' ? 'bad' : root.status === 'ok' ? 'good' : 'warn'}>
          {statusLabel(root.status)}
        </Badge>
        {isRunning(summary) && (
          <span className="flex items-center gap-1 text-xs text-muted">
            <Spinner label="Still running" />
            Still running
          </span>
        )}
        <span className="grow" />
        <Button variant="main" size="small" disabled={busy} onClick={onOpen}>
          <MessageSquareShare aria-hidden className="size-3.5" />
          Open in playground
        </Button>
        <Button size="small" onClick={() => addToTestSet({ kind: 'trace', trace_id: id })}>
          <ListPlus aria-hidden className="size-3.5" />
          Add to test set
        </Button>
        <ExportMenu id={id} />
        <IconButton
          size="small"
          label="Copy link"
          onClick={() => void copyText(window.location.href).then(() => showToast('Link copied.'), showError)}
        >
          <Link2 />
        </IconButton>
      </div>
      <TraceFacts summary={summary} />
    </header>
  );
}

function TraceFacts({ summary }: { summary: Summary }): ReactNode {
  const {
    root,
    spans,
    errors,
    input_tokens: inputTokens,
    output_tokens: outputTokens,
    cost,
    sessions,
    trace_id: id,
  } = summary;
  const tokens = inputTokens === null && outputTokens === null ? null : (inputTokens ?? 0) + (outputTokens ?? 0);
  return (
    <dl className="mt-1 flex flex-wrap items-center gap-x-4 gap-y-0.5 text-[13px] [&_dt]:sr-only">
      {root.workflow && (
        <TraceFact name="Workflow">
          <bdi className="font-medium">{safeExact(root.workflow).slice(0, 100)}</bdi>
        </TraceFact>
      )}
      <TraceFact name="Started">
        <time dateTime={root.start} title={root.start}>
          {formatDateTime(root.start)}
        </time>
      </TraceFact>
      <TraceFact name="Duration">{formatMilliseconds(root.duration_ms)}</TraceFact>
      <TraceFact name="Spans">
        {spans.toLocaleString('en')} {spans === 1 ? 'span' : 'spans'}
      </TraceFact>
      {errors > 0 && (
        <TraceFact name="Errors">
          <span className="text-bad">
            {errors.toLocaleString('en')} {errors === 1 ? 'error' : 'errors'}
          </span>
        </TraceFact>
      )}
      {tokens !== null && (
        <TraceFact name="Tokens">
          <span
            title={`${(inputTokens ?? 0).toLocaleString('en')} in, ${(outputTokens ?? 0).toLocaleString('en')} out`}
          >
            {formatCompactNumber(tokens)} tokens
          </span>
        </TraceFact>
      )}
      {cost !== null && <TraceFact name="Cost">{formatDollars(cost)}</TraceFact>}
      {sessions.slice(0, 3).map((session) => (
        <TraceFact key={session} name="Session">
          <Link href={sessionPath(session)} className="flex max-w-48 items-center gap-1 text-accent hover:underline">
            <History aria-hidden className="size-3.5 shrink-0" />
            <bdi className="truncate">{safeExact(session).slice(0, 100)}</bdi>
          </Link>
        </TraceFact>
      ))}
      {root.run_id && <ThreadLink run={root.run_id} />}
      <TraceFact name="Trace ID">
        <span className="flex items-center">
          <span className="font-mono text-xs text-faint">{id.slice(0, 8)}…</span>
          <CopyButton label="Copy trace ID" text={id} className="!size-6" />
        </span>
      </TraceFact>
    </dl>
  );
}

function ThreadLink({ run: id }: { run: string }): ReactNode {
  const { data } = useQuery({ ...runQuery(id), retry: false });
  return data?.thread ? (
    <TraceFact name="Thread">
      <Link href={`/play/${data.thread}`} className="text-accent hover:underline">
        Thread
      </Link>
    </TraceFact>
  ) : null;
}

const TraceFact = ({ name, children }: { name: string; children: ReactNode }): ReactNode => (
  <div className="text-muted tabular-nums">
    <dt>{name}</dt>
    <dd>{children}</dd>
  </div>
);

function ExportMenu({ id }: { id: string }): ReactNode {
  const exportAs = (format: string) => () => download(`/api/traces/export?trace=${id}&format=${format}`);
  return (
    <Menu
      trigger={
        <Button size="small">
          <Download aria-hidden className="size-3.5" />
          Export
          <ChevronDown aria-hidden className="size-3 text-faint" />
        </Button>
      }
    >
      <MenuItem onSelect={exportAs('jsonl')}>Spans (JSON Lines)</MenuItem>
      <MenuItem onSelect={exportAs('otlp')}>OTLP (JSON)</MenuItem>
      <MenuItem onSelect={() => download(`/api/traces/${id}/export.html`)}>Web page (HTML)</MenuItem>
    </Menu>
  );
}

/** Download a file, which the server sends as an attachment. */
function download(path: string): void {
  const link = document.createElement('a');
  link.href = serverPath(path);
  link.download = '';
  link.click();
}

const wideScreen = window.matchMedia('(min-width: 1024px)');

const subscribe = (listener: () => void): (() => void) => {
  wideScreen.addEventListener('change', listener);
  return () => wideScreen.removeEventListener('change', listener);
};

/** Whether the screen has room for two panes. */
export const useIsWide = (): boolean => useSyncExternalStore(subscribe, () => wideScreen.matches);

interface ConversationPaneProps {
  trace: string;
  onSpan: (id: string) => void;
  openInPlayground: (load: () => Promise<PlaygroundTarget>) => Promise<void>;
}

export function ConversationPane({ trace, onSpan, openInPlayground }: ConversationPaneProps): ReactNode {
  const [showFull, setShowFull] = useState(false);
  const shortened = useQuery(traceConversationQuery(trace, false));
  const full = useQuery({ ...traceConversationQuery(trace, true), enabled: showFull });
  const conversation = full.data ?? shortened.data;
  const omittedSize = conversation?.cut ?? 0;
  const items = useMemo(() => (conversation ? stepItems(conversation.steps) : []), [conversation]);
  const resume = useCallback(
    (item: StepItem) =>
      openInPlayground(() =>
        api('post', '/api/traces/{trace}/thread', { path: { trace }, body: { upto: item.messageCount } }),
      ),
    [openInPlayground, trace],
  );
  const showSpan = useCallback((item: StepItem) => onSpan(item.span), [onSpan]);
  if (!conversation)
    return <div className="p-4">{shortened.error ? <ErrorMessage error={shortened.error} /> : <Spinner />}</div>;
  if (!items.length) {
    return (
      <EmptyState title="No conversation" icon={<MessagesSquare />}>
        No span of this trace contains messages. Select a span to see its input and output.
      </EmptyState>
    );
  }
  return (
    <div className="mx-auto max-w-3xl px-4 py-4">
      {omittedSize > 0 && (
        <TruncatedNotice busy={full.isFetching} onShowAll={() => setShowFull(true)}>
          Long text is truncated. {formatSize(omittedSize)} not shown.
        </TruncatedNotice>
      )}
      {full.error && <ErrorMessage error={full.error} />}
      <ConversationSteps items={items} onSpan={showSpan} resume={resume} />
    </div>
  );
}
