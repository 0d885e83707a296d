/** Revisions of a test set, newest first: open, compare, restore. */
import { useInfiniteQuery } from '@tanstack/react-query';
import { ArrowLeft } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { Link, useLocation } from 'wouter';
import type { Schemas, TestSet } from '@/api/client';
import { Button, CopyButton } from '@/components/button';
import { Select } from '@/components/form-fields';
import { jsonText } from '@/components/json-view';
import { Badge, EmptyState, LoadError, Loading, MoreButton, Spinner } from '@/components/status';
import { WordDiff } from '@/components/text';
import { showError } from '@/components/toast';
import { formatDateTime, formatTimeAgo, pluralize } from '@/lib/format';
import { safeProse, safeExact } from '@/lib/safe-text';
import { messagesIn, type MessageText } from './cell-messages';
import { MessageView, type ChangeKind } from './cell-view';
import { revisionPagesQuery, type TestsetRevision, differenceQuery, type RevisionDifference } from './queries';
import { useRestore } from './save-bar';

export function History({ set }: { set: TestSet }): ReactNode {
  const { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery(
    revisionPagesQuery(set.id),
  );
  const restore = useRestore(set);
  const revisions = data?.pages.flatMap((page) => page.data) ?? [];
  if (error && !data) return <LoadError error={error} onRetry={refetch} className="p-4" />;
  if (!data) return <Loading className="p-6" />;
  return (
    <div className="min-h-0 grow overflow-y-auto">
      <div className="mx-auto max-w-4xl">
        {revisions.length > 1 && <CompareForm set={set} revisions={revisions} />}
        <ol aria-label="Revisions">
          {revisions.map((item) => (
            <li key={item.revision} className="flex flex-wrap items-center gap-x-3 gap-y-1 border-b px-4 py-2.5">
              <span className="w-8 shrink-0 font-medium tabular-nums">{item.revision}</span>
              <div className="min-w-0 grow basis-56">
                <p dir="auto" className={item.message ? 'wrap-anywhere' : 'text-faint'}>
                  {safeProse(item.message) || 'No description'}{' '}
                  {item.revision === set.head && <Badge tone="accent">Latest</Badge>}
                </p>
                <p className="text-xs text-muted tabular-nums">
                  <time dateTime={item.created_at} title={formatDateTime(item.created_at)}>
                    {formatTimeAgo(item.created_at)}
                  </time>{' '}
                  · {pluralize(item.rows, 'row')} · {pluralize(item.columns.length, 'column')}
                  {item.author && ` · ${item.author}`}
                </p>
              </div>
              <div className="flex gap-1 max-sm:w-full max-sm:pl-9">
                {item.parent !== null && (
                  <RevisionLink
                    href={`/testsets/${set.id}?from=${item.parent}&to=${item.revision}`}
                    label={`What changed in revision ${item.revision}`}
                  >
                    Changes
                  </RevisionLink>
                )}
                <RevisionLink
                  href={
                    item.revision === set.head ? `/testsets/${set.id}` : `/testsets/${set.id}?revision=${item.revision}`
                  }
                  label={`Rows of revision ${item.revision}`}
                >
                  Rows
                </RevisionLink>
                {item.revision !== set.head && !set.archived && (
                  <Button
                    size="small"
                    variant="quiet"
                    aria-label={`Restore revision ${item.revision}`}
                    onClick={() => void restore(item.revision).catch(showError)}
                  >
                    Restore
                  </Button>
                )}
              </div>
            </li>
          ))}
        </ol>
        {hasNextPage && (
          <MoreButton className="flex justify-center p-3" busy={isFetchingNextPage} onClick={fetchNextPage} />
        )}
      </div>
    </div>
  );
}

const RevisionLink = ({ href, label, children }: { href: string; label: string; children: ReactNode }): ReactNode => (
  <Link
    href={href}
    aria-label={label}
    className="inline-flex h-7 items-center rounded-lg px-2 text-[13px] font-medium text-accent hover:bg-sunken"
  >
    {children}
  </Link>
);

function CompareForm({ set, revisions }: { set: TestSet; revisions: readonly TestsetRevision[] }): ReactNode {
  const [, navigate] = useLocation();
  const [from, setFrom] = useState(String(revisions[1]?.revision ?? 1));
  const [to, setTo] = useState(String(set.head));
  const revisionSelect = (label: string, value: string, onChange: (value: string) => void): ReactNode => (
    <Select
      aria-label={label}
      value={value}
      onChange={(event) => onChange(event.target.value)}
      className="w-auto max-w-56"
    >
      {revisions.map(({ revision, message }) => (
        <option key={revision} value={revision}>
          {revision}
          {message && `: ${message.slice(0, 40)}`}
        </option>
      ))}
    </Select>
  );
  return (
    <form
      className="flex flex-wrap items-center gap-2 border-b px-4 py-2.5"
      onSubmit={(event) => {
        event.preventDefault();
        navigate(`/testsets/${set.id}?from=${from}&to=${to}`);
      }}
    >
      <span className="text-muted">From</span>
      {revisionSelect('From revision', from, setFrom)}
      <span className="text-muted">to</span>
      {revisionSelect('To revision', to, setTo)}
      <Button type="submit" disabled={from === to}>
        Compare
      </Button>
    </form>
  );
}

type CellChange = Schemas['CellChange'];
const TONES = { added: 'good', removed: 'bad', changed: 'warn', moved: 'accent' } as const;
/** Longer cells are not compared word by word. */
const MAX_DIFF_LENGTH = 20_000;

/** Added, removed, changed and moved rows between two revisions. */
export function RevisionDiff({ set, from, to }: { set: TestSet; from: number; to: number }): ReactNode {
  const { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery(
    differenceQuery(set.id, from, to),
  );
  const [first] = data?.pages ?? [];
  return (
    <div className="min-h-0 grow overflow-y-auto">
      <div className="mx-auto flex max-w-4xl flex-col gap-3 px-4 py-3">
        <div className="flex flex-wrap items-center gap-2">
          <Link
            href={`/testsets/${set.id}?view=history`}
            aria-label="All revisions"
            className="-ml-1.5 flex size-7 items-center justify-center rounded-lg text-muted hover:bg-sunken"
          >
            <ArrowLeft aria-hidden className="size-4" />
          </Link>
          <h2 className="font-semibold">
            From revision {from} to {to}
          </h2>
          {first && <DiffCounts counts={first.counts} columns={first.columns} />}
        </div>
        {error && !data && <LoadError error={error} onRetry={refetch} />}
        {!data && !error && <Spinner />}
        {first && first.rows.length === 0 && <EmptyState title="No differences" />}
        {data?.pages
          .flatMap((page) => page.rows)
          .map((row) => (
            <RowDiff key={`${row.id} ${row.change}`} row={row} />
          ))}
        {hasNextPage && (
          <Button
            size="small"
            className="self-center"
            disabled={isFetchingNextPage}
            onClick={() => void fetchNextPage()}
          >
            Load more
          </Button>
        )}
      </div>
    </div>
  );
}

function DiffCounts({
  counts,
  columns,
}: {
  counts: Readonly<Record<string, number>>;
  columns: { added: readonly string[]; removed: readonly string[] };
}): ReactNode {
  const changes = (['added', 'removed', 'changed', 'moved'] as const).filter((change) => (counts[change] ?? 0) > 0);
  return (
    <p role="status" className="flex flex-wrap items-center gap-1.5 text-[13px] text-muted">
      {changes.map((change) => (
        <Badge key={change} tone={TONES[change]}>
          {(counts[change] ?? 0).toLocaleString('en')} {change}
        </Badge>
      ))}
      {columns.added.length > 0 && (
        <span>
          New columns: <bdi>{safeExact(columns.added.slice(0, 10).join(', '))}</bdi>
        </span>
      )}
      {columns.removed.length > 0 && (
        <span>
          Removed columns: <bdi>{safeExact(columns.removed.slice(0, 10).join(', '))}</bdi>
        </span>
      )}
    </p>
  );
}

function RowDiff({ row }: { row: RevisionDifference }): ReactNode {
  return (
    <article aria-label={`Row ${row.id}`} className="overflow-hidden rounded-xl border bg-surface">
      <header className="flex h-8 items-center gap-2 border-b bg-canvas px-3 text-xs text-faint">
        <Badge tone={TONES[row.change]}>{row.change}</Badge>
        {row.moved && row.change !== 'moved' && <Badge tone="accent">moved</Badge>}
        <span className="min-w-0 truncate font-mono">{row.id}</span>
        <CopyButton label="Copy row ID" text={row.id} className="!size-6" />
      </header>
      {row.cells.length === 0 && (
        <p className="px-3 py-2 text-[13px] text-muted">
          {row.change === 'moved' ? 'Moved. The cells are unchanged.' : 'No cells.'}
        </p>
      )}
      <dl>
        {row.cells.map((cell) => (
          <div
            key={cell.column}
            className="grid gap-x-3 border-b px-3 py-2 last:border-0 sm:grid-cols-[9rem_minmax(0,1fr)]"
          >
            <dt className="truncate text-[13px] font-medium" title={safeExact(cell.column)}>
              <bdi>{safeExact(cell.column)}</bdi>
            </dt>
            <dd className="min-w-0 text-[13px]">
              <CellDiff cell={cell} change={row.change} />
            </dd>
          </div>
        ))}
      </dl>
    </article>
  );
}

function CellDiff({ cell, change }: { cell: CellChange; change: RevisionDifference['change'] }): ReactNode {
  const [from, to] = [messagesIn(cell.from), messagesIn(cell.to)];
  if (cell.messages && (from || cell.from === undefined) && (to || cell.to === undefined))
    return <ConversationDiff from={from ?? []} to={to ?? []} changes={cell.messages} isChange={change === 'changed'} />;
  const isText = typeof cell.to === 'string' || (cell.to === undefined && typeof cell.from === 'string');
  return <TextDiff from={valueText(cell.from)} to={valueText(cell.to)} mono={!isText} />;
}

const valueText = (value: unknown): string =>
  value === undefined ? '' : typeof value === 'string' ? value : jsonText(value);

function TextDiff({ from, to, mono = false }: { from: string; to: string; mono?: boolean }): ReactNode {
  return (
    <span
      dir="auto"
      className={
        mono ? 'font-mono text-[12px]/5 wrap-anywhere whitespace-pre-wrap' : 'wrap-anywhere whitespace-pre-wrap'
      }
    >
      <WordDiff from={from.slice(0, MAX_DIFF_LENGTH)} to={to.slice(0, MAX_DIFF_LENGTH)} />
      {Math.max(from.length, to.length) > MAX_DIFF_LENGTH && '…'}
    </span>
  );
}

/** The new conversation with additions and removals; unchanged messages are only counted. */
function ConversationDiff({
  from,
  to,
  changes,
  isChange,
}: {
  from: readonly MessageText[];
  to: readonly MessageText[];
  changes: readonly Schemas['MessageChange'][];
  isChange: boolean;
}): ReactNode {
  const changeByIndex = new Map(changes.filter(({ op }) => op !== 'removed').map(({ index, op }) => [index, op]));
  const removedIndexes = changes.filter(({ op }) => op === 'removed').map(({ index }) => index);
  const lines: ReactNode[] = [];
  let [unchangedCount, oldIndex] = [0, 0];
  const flushUnchanged = () => {
    if (unchangedCount > 0)
      lines.push(
        <p key={`same ${lines.length}`} className="text-xs text-faint">
          {pluralize(unchangedCount, 'unchanged message')}
        </p>,
      );
    unchangedCount = 0;
  };
  const addRemoved = () => {
    while (removedIndexes[0] === oldIndex) {
      const message = from[oldIndex];
      flushUnchanged();
      if (message)
        lines.push(
          <MessageView
            key={`gone ${oldIndex}`}
            message={message}
            {...(isChange ? { op: 'removed' as ChangeKind } : {})}
          />,
        );
      removedIndexes.shift();
      oldIndex += 1;
    }
  };
  for (const [index, message] of to.entries()) {
    const op = changeByIndex.get(index);
    if (op !== 'added') addRemoved();
    if (op === undefined) {
      unchangedCount += 1;
      oldIndex += 1;
      continue;
    }
    flushUnchanged();
    const previous = op === 'changed' ? from[oldIndex] : undefined;
    lines.push(
      <MessageView
        key={index}
        message={message}
        {...(isChange ? { op } : {})}
        {...(previous && previous.text !== message.text
          ? { text: <TextDiff from={previous.text} to={message.text} /> }
          : {})}
      />,
    );
    if (op === 'changed') oldIndex += 1;
  }
  flushUnchanged();
  addRemoved();
  return <div className="flex flex-col gap-1.5">{lines}</div>;
}
