/** Row of the traces table: a line of columns, or a card on narrow screens. */
import { useQuery } from '@tanstack/react-query';
import { memo, type KeyboardEvent, type MouseEvent, type ReactNode, useMemo } from 'react';
import { Link } from 'wouter';
import type { Preview } from '@/api/client';
import { JsonView } from '@/components/json-view';
import { MessageView } from '@/components/messages/message-view';
import { messagesOf, outputNodes, type OutputMessage } from '@/components/messages/nodes';
import { parsePreview, PreviewView, SIDE_LABELS, SidePreviewCell } from '@/components/preview';
import { ErrorMessage, Spinner } from '@/components/status';
import { LongText } from '@/components/text';
import { cn } from '@/lib/cn';
import { formatAge, formatDateTime, formatCompactNumber, pluralize, formatDollars } from '@/lib/format';
import { safeExact, safeProse } from '@/lib/safe-text';
import { formatMilliseconds } from './detail/timeline';
import { traceThreadQuery, spanRecordQuery } from './queries';
import { rowPath, rowId, type TraceRow } from './rows';
import { sessionPath } from './span-facts';
import { KindIcon } from './span-kind';

/** Fixed row heights in pixels, so that thousands of rows need no measuring. */
export const ROW_LINE_HEIGHT = 56;
export const ROW_CARD_HEIGHT = 116;

/** Columns of a line; the span count is for traces only. */
export const TRACE_COLUMNS = {
  traces: 'grid gap-x-4 grid-cols-[4.25rem_minmax(9rem,13rem)_minmax(0,1fr)_6rem_4.25rem_4rem_3.5rem]',
  spans: 'grid gap-x-4 grid-cols-[4.25rem_minmax(9rem,13rem)_minmax(0,1fr)_6rem_4.25rem_4rem]',
};

interface TableRowProps {
  row: TraceRow;
  index: number;
  now: number;
  /** Whether this is the focused row. */
  active: boolean;
  card: boolean;
  open: (row: TraceRow, event: MouseEvent | KeyboardEvent) => void;
  onActivate: (id: string) => void;
}

export const TraceTableRow = memo(function TraceTableRow({
  row,
  index,
  now,
  active,
  card,
  open,
  onActivate,
}: TableRowProps): ReactNode {
  const handlers = {
    // React events of portals bubble here although they are outside of the row.
    onClick: (event: MouseEvent<HTMLElement>) => {
      if (event.currentTarget.contains(event.target as Node) && !(event.target as Element).closest('a'))
        open(row, event);
    },
    onKeyDown: (event: KeyboardEvent<HTMLElement>) => {
      if (event.key === 'Enter' && event.target === event.currentTarget) open(row, event);
    },
    onFocus: () => onActivate(rowId(row)),
  };
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      tabIndex={active ? 0 : -1}
      data-place={index}
      {...handlers}
      className={cn(
        'group/row h-full cursor-pointer border-b px-4 -outline-offset-2 hover:bg-sunken/60',
        card
          ? 'flex flex-col justify-center gap-0.5 py-2'
          : cn('items-center', TRACE_COLUMNS[row.spans === undefined ? 'spans' : 'traces']),
        active && 'focus-within:bg-sunken/60',
      )}
    >
      {card ? <Card row={row} now={now} /> : <Line row={row} now={now} active={active} index={index} />}
    </div>
  );
});

function Line({ row, now, active, index }: { row: TraceRow; now: number; active: boolean; index: number }): ReactNode {
  const tokens = totalTokens(row);
  return (
    <>
      <div role="gridcell" className="min-w-0">
        <time dateTime={row.start} title={formatDateTime(row.start)} className="block truncate tabular-nums">
          {formatAge(row.start, now)}
        </time>
        <StatusLabel status={row.status} />
      </div>
      <div role="gridcell" className="min-w-0">
        <NameLink row={row} />
        <KindAndModel row={row} />
      </div>
      <div role="gridcell" className="grid min-w-0 grid-cols-1 @7xl:grid-cols-2 @7xl:gap-x-4">
        <Cell row={row} side="in" active={active} index={index} />
        <Cell row={row} side="out" active={active} index={index} />
      </div>
      <div role="gridcell" className="min-w-0 text-xs">
        <SessionLink row={row} active={active} />
        {row.user && (
          <span className="block truncate text-faint" dir="auto" title={safeExact(row.user)}>
            {safeProse(row.user)}
          </span>
        )}
      </div>
      <div role="gridcell" className="truncate text-right tabular-nums">
        {formatMilliseconds(row.duration_ms)}
      </div>
      <div role="gridcell" className="min-w-0 text-right tabular-nums">
        <span className="block truncate" {...(tokens === null ? {} : { title: tokenDetails(row) })}>
          {tokens === null ? <NoValue /> : formatCompactNumber(tokens)}
        </span>
        {row.cost !== null && (
          <span className="block truncate text-xs text-muted" title={`$${row.cost}`}>
            {formatDollars(row.cost)}
          </span>
        )}
      </div>
      {row.spans !== undefined && (
        <div role="gridcell" className="min-w-0 text-right tabular-nums">
          <span className="block truncate">{formatCompactNumber(row.spans)}</span>
          {row.errors ? (
            <span className="block truncate text-xs text-bad">{pluralize(row.errors, 'error')}</span>
          ) : null}
        </div>
      )}
    </>
  );
}

function Card({ row, now }: { row: TraceRow; now: number }): ReactNode {
  const tokens = totalTokens(row);
  const facts = [
    row.model && safeProse(row.model),
    formatMilliseconds(row.duration_ms),
    tokens !== null && `${formatCompactNumber(tokens)} tokens`,
    row.cost !== null && formatDollars(row.cost),
    row.spans !== undefined && pluralize(row.spans, 'span'),
  ];
  return (
    <>
      <div role="gridcell" className="flex min-w-0 items-center gap-2">
        <NameLink row={row} />
        <span className="grow" />
        {row.status !== 'ok' && <StatusLabel status={row.status} />}
        <time dateTime={row.start} className="shrink-0 text-xs text-faint tabular-nums">
          {formatAge(row.start, now)}
        </time>
      </div>
      <div role="gridcell" className="min-w-0">
        <PreviewLine row={row} side="in" />
        <PreviewLine row={row} side="out" />
      </div>
      <div role="gridcell" className="flex min-w-0 items-center gap-1.5 text-xs text-faint">
        <KindIcon kind={row.kind} />
        <span className="truncate">{facts.filter(Boolean).join(' · ')}</span>
        {row.errors ? <span className="shrink-0 text-bad">{pluralize(row.errors, 'error')}</span> : null}
      </div>
    </>
  );
}

/** A real link, to open in a new tab or copy. */
const NameLink = ({ row }: { row: TraceRow }): ReactNode => {
  const name = row.workflow ?? row.name;
  return (
    <Link
      href={rowPath(row)}
      tabIndex={-1}
      dir="auto"
      title={safeExact(name === row.name ? name : `${name} (${row.name})`)}
      className="block truncate font-medium"
    >
      {safeProse(name)}
    </Link>
  );
};

function SessionLink({ row, active }: { row: TraceRow; active: boolean }): ReactNode {
  if (!row.session) return <NoValue />;
  return (
    <Link
      href={sessionPath(row.session)}
      tabIndex={active ? 0 : -1}
      dir="auto"
      title={safeExact(row.session)}
      className="block truncate text-muted underline-offset-2 hover:text-accent hover:underline"
    >
      {safeProse(row.session)}
    </Link>
  );
}

const KindAndModel = ({ row }: { row: TraceRow }): ReactNode => (
  <span className="flex min-w-0 items-center gap-1.5 text-xs text-muted">
    <KindIcon kind={row.kind} />
    <span className="shrink-0">{row.kind}</span>
    {row.model && (
      <span className="truncate text-faint" title={safeExact(row.model)} dir="auto">
        {safeProse(row.model)}
      </span>
    )}
  </span>
);

const TEXT_CLASSES: Record<string, string> = {
  ok: 'text-faint',
  error: 'text-bad',
  cancelled: 'text-warn',
  incomplete: 'text-warn',
};
const DOTS: Record<string, string> = { ok: 'bg-good', error: 'bg-bad', cancelled: 'bg-warn', incomplete: 'bg-warn' };

const StatusLabel = ({ status }: { status: string }): ReactNode => (
  <span className={cn('flex shrink-0 items-center gap-1.5 text-xs', TEXT_CLASSES[status])}>
    <span aria-hidden className={cn('size-1.5 shrink-0 rounded-full', DOTS[status])} />
    {status}
  </span>
);

function Cell({
  row,
  side,
  active,
  index,
}: {
  row: TraceRow;
  side: 'in' | 'out';
  active: boolean;
  index: number;
}): ReactNode {
  const preview = parsePreview(row[side]);
  return (
    <div
      className={cn(
        'flex min-w-0 items-baseline gap-2',
        side === 'in' ? 'text-muted' : row.status === 'error' ? 'text-bad' : 'text-ink',
      )}
    >
      <span aria-hidden className="w-5 shrink-0 text-[11px] text-faint select-none @7xl:hidden">
        {side}
      </span>
      <div className="min-w-0 grow">
        <SidePreviewCell
          // oxlint-disable-next-line react/no-unstable-nested-components -- it is called, not mounted
          renderFull={() => <FullValue row={row} side={side} preview={preview} />}
          side={side}
          row={index}
          active={active}
          preview={preview}
        />
      </div>
    </div>
  );
}

function PreviewLine({ row, side }: { row: TraceRow; side: 'in' | 'out' }): ReactNode {
  const preview = parsePreview(row[side]);
  return (
    <span
      className={cn('block truncate', side === 'in' ? 'text-muted' : row.status === 'error' ? 'text-bad' : 'text-ink')}
      dir="auto"
    >
      <span className="sr-only">{SIDE_LABELS[side]}: </span>
      {preview.renderer === 'empty' ? <span className="text-faint">Empty</span> : safeProse(preview.text)}
    </span>
  );
}

const NoValue = (): ReactNode => (
  <span aria-hidden className="text-faint">
    –
  </span>
);

const totalTokens = ({ input_tokens: inputTokens, output_tokens: outputTokens }: TraceRow): number | null =>
  inputTokens === null && outputTokens === null ? null : (inputTokens ?? 0) + (outputTokens ?? 0);
const tokenDetails = ({ input_tokens: inputTokens, output_tokens: outputTokens }: TraceRow): string =>
  `${(inputTokens ?? 0).toLocaleString('en')} in, ${(outputTokens ?? 0).toLocaleString('en')} out`;

/** Longer conversations show the end; the trace page has all. */
const MAX_MESSAGES = 200;
const NO_ACTIONS = {};

interface FullValueProps {
  row: TraceRow;
  side: 'in' | 'out';
  preview: Preview;
}

/** Full value behind a cell, fetched when shown. */
export function FullValue({ row, side, preview }: FullValueProps): ReactNode {
  const { data, error } = useQuery(traceThreadQuery(row.trace_id, row.spans === undefined ? row.span_id : null));
  if (error) return <ErrorMessage error={error} />;
  if (!data) return <ValueLoading preview={preview} />;
  return data.messages.length > 0 ? (
    <ThreadMessages row={row} messages={data.messages} />
  ) : (
    <RecordValue row={row} side={side} preview={preview} />
  );
}

/** The preview until the value has loaded. */
const ValueLoading = ({ preview }: { preview: Preview }): ReactNode => (
  <div className="flex w-144 max-w-full flex-col gap-2">
    <PreviewView preview={preview} isExpanded />
    <Spinner />
  </div>
);

function ThreadMessages({ row, messages }: { row: TraceRow; messages: readonly OutputMessage[] }): ReactNode {
  const hiddenCount = Math.max(0, messages.length - MAX_MESSAGES);
  const chatMessages = useMemo(() => {
    // Message ids are not unique.
    // oxlint-disable-next-line oxc/no-map-spread -- the messages must not be changed
    const messagesWithoutIds = messages.slice(hiddenCount).map((message) => ({ ...message, id: null }));
    return messagesOf(outputNodes(messagesWithoutIds, { id: row.span_id, status: 'finished', created_at: row.start }));
  }, [messages, hiddenCount, row.span_id, row.start]);
  return (
    <section aria-label="Full conversation" className="flex w-144 max-w-full flex-col">
      {hiddenCount > 0 && (
        <p className="text-xs text-faint">
          {pluralize(hiddenCount, 'earlier message')} not shown. Open the trace to see all.
        </p>
      )}
      {chatMessages.map((message) => (
        <MessageView key={message.id} message={message} streaming={false} actions={NO_ACTIONS} />
      ))}
      {row.status === 'error' && (
        <p dir="auto" className="rounded-lg bg-bad-soft px-3 py-2 wrap-anywhere text-bad">
          {safeProse(parsePreview(row.out).text ?? '') || 'The run failed.'}
        </p>
      )}
    </section>
  );
}

function RecordValue({ row, side, preview }: FullValueProps): ReactNode {
  const { data, error } = useQuery(spanRecordQuery(row.trace_id, row.span_id));
  if (error) return <ErrorMessage error={error} />;
  if (!data) return <ValueLoading preview={preview} />;
  const value = 'inputs' in data ? (side === 'in' ? data.inputs : data.outputs) : undefined;
  if (value === null || value === undefined) return <PreviewView preview={preview} isExpanded />;
  if (typeof value === 'string') {
    return (
      <p dir="auto" className="max-w-144 wrap-anywhere whitespace-pre-wrap">
        <LongText text={value} />
      </p>
    );
  }
  return <JsonView value={value} openLevels={2} />;
}
