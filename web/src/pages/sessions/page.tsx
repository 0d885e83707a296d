/** /sessions: list of sessions, or one session. */
import { useInfiniteQuery } from '@tanstack/react-query';
import { useVirtualizer } from '@tanstack/react-virtual';
import { History } from 'lucide-react';
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { Link } from 'wouter';
import { TextField } from '@/components/form-fields';
import { parsePreview } from '@/components/preview';
import { EmptyState, LoadError, Loading, Spinner } from '@/components/status';
import { formatDateTime, formatTimeAgo, pluralize } from '@/lib/format';
import { useTitle, useDebounced } from '@/lib/hooks';
import { safeExact, safeProse } from '@/lib/safe-text';
import { sessionPath } from '@/pages/traces/span-facts';
import { sessionFromPath, SessionDetail } from './detail';
import { sessionsQuery, type SessionRow } from './queries';

export default function SessionsPage({ session }: { session?: string }): ReactNode {
  const name = session === undefined ? null : sessionFromPath(window.location.pathname, window.location.search);
  useTitle(name === null ? 'Sessions' : `Session ${name.slice(0, 80)}`);
  return name === null ? <SessionList /> : <SessionDetail key={name} session={name} />;
}

const ROW_HEIGHT = 84;

/** Sessions, most recently active first, in a virtual list. */
export function SessionList(): ReactNode {
  const [searchText, setSearchText] = useState('');
  const search = useDebounced(searchText.trim(), 250);
  const { data, error, refetch, hasNextPage, isFetching, fetchNextPage } = useInfiniteQuery(sessionsQuery(search));
  const rows = data?.pages.flatMap((page) => page.data) ?? [];
  const box = useRef<HTMLDivElement>(null);
  // oxlint-disable-next-line react/incompatible-library -- no memoized component receives the virtualizer
  const virtual = useVirtualizer({
    count: rows.length,
    getScrollElement: () => box.current,
    estimateSize: () => ROW_HEIGHT,
    overscan: 6,
  });
  const lastIndex = virtual.getVirtualItems().at(-1)?.index ?? 0;
  useEffect(() => {
    if (hasNextPage && !isFetching && lastIndex >= rows.length - 10) void fetchNextPage();
  }, [lastIndex, rows.length, hasNextPage, isFetching, fetchNextPage]);
  return (
    <div className="flex h-full flex-col">
      <header className="flex shrink-0 flex-wrap items-center gap-3 border-b bg-surface px-4 py-2.5 sm:px-6">
        <h1 className="text-base font-semibold">Sessions</h1>
        <TextField
          type="search"
          aria-label="Find a session"
          placeholder="Find by name"
          dir="auto"
          value={searchText}
          onChange={(event) => setSearchText(event.target.value)}
          className="ml-auto max-w-72 min-w-40"
        />
      </header>
      <div ref={box} className="min-h-0 grow overflow-y-auto">
        <div className="mx-auto max-w-5xl sm:px-2">
          {error && <LoadError error={error} onRetry={refetch} className="p-4" />}
          {!data && !error && <Loading className="p-6" />}
          {data && rows.length === 0 && <NoSessions search={search} />}
          <ul aria-label="Sessions" className="relative" style={{ height: virtual.getTotalSize() }}>
            {virtual.getVirtualItems().map(({ index, start }) => {
              const row = rows[index];
              return row && <SessionItem key={row.session} row={row} top={start} />;
            })}
          </ul>
          {hasNextPage && (
            <div className="flex justify-center p-3">
              <Spinner label="Loading more" />
            </div>
          )}
        </div>
      </div>
    </div>
  );
}

function SessionItem({ row, top }: { row: SessionRow; top: number }): ReactNode {
  const { session, first, last, traces, spans } = row;
  return (
    <li className="absolute inset-x-0 top-0 border-b" style={{ height: ROW_HEIGHT, transform: `translateY(${top}px)` }}>
      <Link
        href={sessionPath(session)}
        className="flex h-full flex-col justify-center gap-0.5 px-4 -outline-offset-2 hover:bg-sunken"
      >
        <span className="flex min-w-0 items-baseline gap-3">
          <bdi className="min-w-0 grow truncate font-medium">{safeExact(session).slice(0, 300)}</bdi>
          <span className="shrink-0 text-xs text-faint tabular-nums">
            {pluralize(traces, 'trace')} · {pluralize(spans, 'span')}
          </span>
          <time
            dateTime={last}
            title={`From ${formatDateTime(first)} to ${formatDateTime(last)}`}
            className="w-20 shrink-0 text-right text-xs text-muted"
          >
            {formatTimeAgo(last)}
          </time>
        </span>
        <Line label="Input" preview={row.in} />
        <Line label="Output" preview={row.out} />
      </Link>
    </li>
  );
}

function Line({ label, preview }: { label: string; preview: unknown }): ReactNode {
  const { text = '' } = parsePreview(preview);
  return (
    <span className="flex min-w-0 gap-2 text-[13px]/5">
      <span className="w-11 shrink-0 text-faint">{label}</span>
      <span dir="auto" className={text ? 'min-w-0 grow truncate text-muted' : 'text-faint'}>
        {safeProse(text) || '–'}
      </span>
    </span>
  );
}

function NoSessions({ search }: { search: string }): ReactNode {
  if (search)
    return <EmptyState title="No matching sessions">Search covers session names and is case-sensitive.</EmptyState>;
  return (
    <EmptyState title="No sessions yet" icon={<History />}>
      A session is a conversation across several traces. Playground chats have one automatically; other programs set
      one, for example in the attribute <code className="font-mono text-[13px]">session.id</code> of their spans.
    </EmptyState>
  );
}
