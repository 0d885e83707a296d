/** The threads of the project in the sidebar: pinned ones first, then by last change; more as one scrolls. */
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { Search, X } from 'lucide-react';
import { useEffect, useEffectEvent, useRef, useState, type ReactNode } from 'react';
import { useRoute, useSearchParams } from 'wouter';
import type { ThreadRow as Row } from '@/api/types';
import { useDelayed } from '@/lib/hooks';
import { Spinner } from '@/components/status';
import { Button } from '@/components/button';
import { threadAt } from './places';
import { board, pinnedThreads, threadPages } from './queries';
import { ThreadRow } from './thread-row';

const MINUTE = 60_000;

export function ThreadList(): ReactNode {
  const [text, setText] = useState('');
  const search = useDelayed(text.trim(), 250);
  const pages = useInfiniteQuery(threadPages(search));
  const pinned = useQuery({ ...pinnedThreads(), enabled: search === '' });
  const all = pages.data?.pages.flatMap(({ data }) => data) ?? [];
  const first = search ? [] : (pinned.data?.data ?? []);
  const rest = search ? all : all.filter((thread) => !thread.pinned);
  const nothing = pages.data && !pages.isPlaceholderData && first.length + all.length === 0;
  return (
    <section aria-label="Threads" className="flex flex-col">
      <div className="sticky top-0 z-10 bg-canvas px-3 pt-2 pb-1.5">
        <SearchBox text={text} onChange={setText} />
      </div>
      {pages.error && (
        <div className="flex items-center justify-between gap-2 px-5 py-1 text-xs text-bad">
          The threads could not be read.
          <Button size="small" look="quiet" onClick={() => void pages.refetch()}>
            Retry
          </Button>
        </div>
      )}
      {nothing && <p className="px-5 py-2 text-xs text-muted">{search ? 'No thread has this text.' : 'Threads you start appear here.'}</p>}
      <Rows title="Pinned" threads={first} />
      <Rows title={search ? 'Found' : 'Threads'} threads={rest} />
      <More
        key={pages.data?.pages.length}
        has={pages.hasNextPage && !pages.isPlaceholderData}
        onReached={() => !pages.isFetching && void pages.fetchNextPage()}
      />
    </section>
  );
}

function Rows({ title, threads }: { title: string; threads: readonly Row[] }): ReactNode {
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

function SearchBox({ text, onChange }: { text: string; onChange: (text: string) => void }): ReactNode {
  return (
    <div className="relative">
      <Search aria-hidden className="pointer-events-none absolute top-2 left-2.5 size-4 text-faint" />
      <input
        type="search"
        dir="auto"
        aria-label="Search threads"
        placeholder="Search threads"
        maxLength={200}
        value={text}
        onChange={(event) => onChange(event.target.value)}
        onKeyDown={(event) => event.key === 'Escape' && onChange('')}
        className="h-8 w-full rounded-lg border bg-surface pr-8 pl-8.5 hover:border-strong-line [&::-webkit-search-cancel-button]:hidden"
      />
      {text && (
        <button type="button" aria-label="Clear the search" onClick={() => onChange('')} className="absolute top-1 right-1 rounded p-1 text-faint hover:text-ink">
          <X className="size-4" />
        </button>
      )}
    </div>
  );
}

/** Asks for the next page when its place comes near. A new one after each page (its key): a short page leaves it in sight. */
function More({ has, onReached }: { has: boolean; onReached: () => void }): ReactNode {
  const place = useRef<HTMLDivElement>(null);
  const reached = useEffectEvent(onReached);
  useEffect(() => {
    if (!place.current || !has) return undefined;
    const observer = new IntersectionObserver(([entry]) => entry?.isIntersecting && reached(), { rootMargin: '400px' });
    observer.observe(place.current);
    return () => observer.disconnect();
  }, [has]);
  return (
    <div ref={place} className="flex h-8 items-center justify-center">
      {has && <Spinner label="Loading more threads" />}
    </div>
  );
}

/** The thread that the address shows. */
function useActiveThread(): string | null {
  const [, parameters] = useRoute('/play/:what');
  const [query] = useSearchParams();
  const what = parameters?.what;
  const isBoard = what?.startsWith('brd_') ?? false;
  const cell = query.get('cell');
  const { data } = useQuery({ ...board(what ?? ''), enabled: isBoard && cell !== null });
  return threadAt(what, cell, isBoard ? data : undefined);
}

/** The time, minute by minute. */
function useNow(): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), MINUTE);
    return () => clearInterval(timer);
  }, []);
  return now;
}
