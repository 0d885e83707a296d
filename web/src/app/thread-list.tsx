/** Threads in the sidebar: pinned first, then by last change, loaded page by page. */
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { Copy, Download, EllipsisVertical, Pencil, Pin, PinOff } from 'lucide-react';
import { useEffect, useEffectEvent, useRef, useState, type ReactNode, type MouseEvent } from 'react';
import { useRoute, useSearchParams, Link, useLocation } from 'wouter';
import type { ThreadRow as Row } from '@/api/client';
import { queryClient } from '@/api/queries';
import { Button, IconButton } from '@/components/button';
import { DeleteMenuItem, Menu, MenuItem, MenuLine, MenuTitle } from '@/components/menu';
import { SearchInput } from '@/components/search-box';
import { Spinner } from '@/components/status';
import { showError } from '@/components/toast';
import { cn } from '@/lib/cn';
import { formatAge, formatDateTime } from '@/lib/format';
import { useDebounced } from '@/lib/hooks';
import {
  threadFromPath,
  boardQuery,
  pinnedThreadsQuery,
  threadPagesQuery,
  deleteThread,
  duplicateThread,
  exportThread,
  pinThread,
  renameThread,
  threadTitle,
  threadPath,
} from './threads';

const MINUTE_MS = 60_000;

export function ThreadList(): ReactNode {
  const [text, setText] = useState('');
  const search = useDebounced(text.trim(), 250);
  const pages = useInfiniteQuery(threadPagesQuery(search));
  const pinned = useQuery({ ...pinnedThreadsQuery(), enabled: search === '' });
  const threads = pages.data?.pages.flatMap(({ data }) => data) ?? [];
  const pinnedThreads = search ? [] : (pinned.data?.data ?? []);
  const otherThreads = search ? threads : threads.filter((thread) => !thread.pinned);
  const isEmpty = pages.data && !pages.isPlaceholderData && pinnedThreads.length + threads.length === 0;
  return (
    <section aria-label="Threads" className="flex flex-col">
      <div className="sticky top-0 z-10 bg-canvas px-3 pt-2 pb-1.5">
        <SearchInput
          label="Search threads"
          placeholder="Search threads"
          maxLength={200}
          value={text}
          onChange={setText}
          className="relative"
        />
      </div>
      {pages.error && (
        <div className="flex items-center justify-between gap-2 px-5 py-1 text-xs text-bad">
          Couldn’t load threads.
          <Button size="small" variant="quiet" onClick={() => void pages.refetch()}>
            Retry
          </Button>
        </div>
      )}
      {isEmpty && (
        <p className="px-5 py-2 text-xs text-muted">
          {search ? 'No matching threads.' : 'Threads you start appear here.'}
        </p>
      )}
      <ThreadGroup title="Pinned" threads={pinnedThreads} />
      <ThreadGroup title={search ? 'Results' : 'Threads'} threads={otherThreads} />
      <LoadMore
        key={pages.data?.pages.length}
        hasMore={pages.hasNextPage && !pages.isPlaceholderData}
        onReached={() => !pages.isFetching && void pages.fetchNextPage()}
      />
    </section>
  );
}

function ThreadGroup({ title, threads }: { title: string; threads: readonly Row[] }): ReactNode {
  const active = useActiveThread();
  const now = useNow();
  if (threads.length === 0) return null;
  return (
    <>
      <h2 className="px-5 pt-1.5 pb-1 text-xs font-medium text-faint">{title}</h2>
      <ul className="px-2.5 pb-1">
        {threads.map((thread) => (
          <ThreadRow key={thread.id} thread={thread} active={thread.id === active} now={now} />
        ))}
      </ul>
    </>
  );
}

/** Calls `onReached` when it scrolls near. Keyed by page, because it stays visible after a short page. */
function LoadMore({ hasMore, onReached }: { hasMore: boolean; onReached: () => void }): ReactNode {
  const sentinel = useRef<HTMLDivElement>(null);
  const handleReached = useEffectEvent(onReached);
  useEffect(() => {
    if (!sentinel.current || !hasMore) return undefined;
    const observer = new IntersectionObserver(([entry]) => entry?.isIntersecting && handleReached(), {
      rootMargin: '400px',
    });
    observer.observe(sentinel.current);
    return () => observer.disconnect();
  }, [hasMore]);
  return (
    <div ref={sentinel} className="flex h-8 items-center justify-center">
      {hasMore && <Spinner label="Loading more threads" />}
    </div>
  );
}

/** The thread that the current path shows. */
function useActiveThread(): string | null {
  const [, parameters] = useRoute('/play/:id');
  const [query] = useSearchParams();
  const id = parameters?.id;
  const isBoard = id?.startsWith('brd_') ?? false;
  const cell = query.get('cell');
  const { data } = useQuery({ ...boardQuery(id ?? ''), enabled: isBoard && cell !== null });
  return threadFromPath(id, cell, isBoard ? data : undefined);
}

/** The current time, updated every minute. */
function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), MINUTE_MS);
    return () => clearInterval(timer);
  }, []);
  return now;
}

export function ThreadRow({ thread, active, now }: { thread: Row; active: boolean; now: number }): ReactNode {
  const [, navigate] = useLocation();
  const open = (event: MouseEvent) => {
    if (!thread.board || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    queryClient.fetchQuery(boardQuery(thread.board)).then(
      (board) => navigate(threadPath(thread.id, board)),
      () => navigate(threadPath(thread.id, undefined)),
    );
  };
  const title = threadTitle(thread);
  return (
    <li
      className={cn(
        'group relative rounded-lg [content-visibility:auto] [contain-intrinsic-size:auto_3rem]',
        active ? 'bg-accent-soft' : 'hover:bg-sunken',
      )}
    >
      <Link
        href={threadPath(thread.id, undefined)}
        onClick={open}
        onPointerEnter={() => thread.board && void queryClient.prefetchQuery(boardQuery(thread.board))}
        aria-current={active ? 'page' : undefined}
        title={`${title}\n${formatDateTime(thread.updated_at)}`}
        className="block rounded-lg py-1.5 pr-8 pl-2.5 -outline-offset-2"
      >
        <span className="flex items-center gap-1.5">
          {thread.run && <RunningDot />}
          <span className={cn('truncate', !thread.title && 'text-muted italic')} dir="auto">
            {title}
          </span>
        </span>
        <span className="flex min-w-0 items-baseline gap-1 text-xs text-muted">
          {thread.match?.message ? (
            <span className="truncate" dir="auto">
              {thread.match.text}
            </span>
          ) : (
            <>
              {thread.workflow && <span className="truncate">{threadSubtitle(thread)}</span>}
              {thread.workflow && <span aria-hidden>·</span>}
              <span className="shrink-0">{formatAge(thread.updated_at, now)}</span>
            </>
          )}
        </span>
      </Link>
      <div
        className={cn(
          'absolute top-2 right-1 opacity-0 group-focus-within:opacity-100',
          'group-hover:opacity-100 has-data-[state=open]:opacity-100 pointer-coarse:opacity-100',
        )}
      >
        <ThreadMenu thread={thread} active={active} />
      </div>
    </li>
  );
}

const RunningDot = (): ReactNode => (
  <span className="relative flex size-2 shrink-0" role="img" aria-label="Running">
    <span className="absolute size-full animate-ping rounded-full bg-accent opacity-60" />
    <span className="size-2 rounded-full bg-accent" />
  </span>
);

const threadSubtitle = ({ workflow, variant }: Row): string =>
  workflow ? (variant && variant !== 'default' ? `${workflow} · ${variant}` : workflow) : '';

const runAction = (action: () => Promise<unknown>) => () => void action().catch(showError);

function ThreadMenu({ thread, active }: { thread: Row; active: boolean }): ReactNode {
  const [, navigate] = useLocation();
  const remove = async () => {
    if ((await deleteThread(thread)) && active && !thread.board) navigate('/play');
  };
  const duplicate = async () => navigate(threadPath((await duplicateThread(thread)).id, undefined));
  return (
    <Menu
      trigger={
        <IconButton label="Thread menu" size="small" className="size-6">
          <EllipsisVertical />
        </IconButton>
      }
    >
      <MenuItem icon={<Pencil />} onSelect={runAction(() => renameThread(thread))}>
        Rename
      </MenuItem>
      <MenuItem icon={thread.pinned ? <PinOff /> : <Pin />} onSelect={runAction(() => pinThread(thread))}>
        {thread.pinned ? 'Unpin' : 'Pin'}
      </MenuItem>
      <MenuItem icon={<Copy />} onSelect={runAction(duplicate)}>
        Duplicate
      </MenuItem>
      <MenuLine />
      <MenuTitle>Export as</MenuTitle>
      <MenuItem icon={<Download />} onSelect={runAction(() => exportThread(thread, 'jsonl'))}>
        All branches (JSON Lines)
      </MenuItem>
      <MenuItem icon={<Download />} onSelect={runAction(() => exportThread(thread, 'messages'))}>
        Messages (JSON Lines)
      </MenuItem>
      <MenuItem icon={<Download />} onSelect={runAction(() => exportThread(thread, 'html'))}>
        Web page (HTML)
      </MenuItem>
      <DeleteMenuItem onSelect={runAction(remove)} />
    </Menu>
  );
}
