/** /reviews: what people are asked, the newest first; and the dialog that asks them something else. */
import { useInfiniteQuery } from '@tanstack/react-query';
import { Plus, UsersRound } from 'lucide-react';
import { lazy, Suspense, useState, type ReactNode } from 'react';
import { Link, useSearchParams } from 'wouter';
import { useCommand } from '@/app/commands';
import { useTitle, useDelayed } from '@/lib/hooks';
import { Empty, Problem, Spinner } from '@/components/status';
import { Button } from '@/components/button';
import { TextField } from '@/components/form-fields';
import { Segments } from '@/components/segmented-control';
import { ListItem } from './list-item';
import { reviewPages } from './queries';

const NewDialog = lazy(() => import('./new-dialog'));
const STATES = { all: 'All', open: 'Open', closed: 'Closed' };

export default function ReviewsPage(): ReactNode {
  useTitle('Reviews');
  const [params, setParams] = useSearchParams();
  const [words, setWords] = useState('');
  const [state, setState] = useState<keyof typeof STATES>('all');
  const search = useDelayed(words.trim(), 250);
  const isNew = params.get('new') === '1';
  const open = () => setParams({ new: '1' });
  useCommand({ id: 'new-review', title: 'New review', group: 'Reviews', run: open });
  return (
    <div className="flex h-full flex-col">
      <header className="flex shrink-0 flex-wrap items-center gap-2 border-b bg-surface px-4 py-2.5 sm:px-6">
        <h1 className="mr-auto text-base font-semibold">Reviews</h1>
        <Segments label="State" options={STATES} value={state} onChange={setState} />
        <TextField type="search" aria-label="Find a review" placeholder="Find by name" dir="auto" maxLength={200} value={words} onChange={(event) => setWords(event.target.value)} className="!w-auto max-w-72 min-w-32 grow max-sm:order-last" />
        <Button look="main" onClick={open}><Plus aria-hidden className="size-4" />New review</Button>
      </header>
      <div className="min-h-0 grow overflow-y-auto">
        <div className="mx-auto max-w-5xl sm:px-2"><Found search={search} state={state === 'all' ? null : state} onNew={open} /></div>
      </div>
      {isNew && <Suspense><NewDialog run={params.get('run')} onClose={() => setParams({})} /></Suspense>}
    </div>
  );
}

function Found({ search, state, onNew }: { search: string; state: string | null; onNew: () => void }): ReactNode {
  const { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery(reviewPages(search, state));
  const rows = data?.pages.flatMap((page) => page.data) ?? [];
  if (error && !data) return <div className="p-4"><Problem error={error}><Button size="small" onClick={() => void refetch()}>Try again</Button></Problem></div>;
  if (!data) return <div className="p-6"><Spinner /></div>;
  if (rows.length === 0) return <None filtered={search !== '' || state !== null} onNew={onNew} />;
  return (
    <>
      <ul aria-label="Reviews">{rows.map((row) => <ListItem key={row.id} row={row} />)}</ul>
      {hasNextPage && <div className="flex justify-center p-3"><Button size="small" disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>More</Button></div>}
    </>
  );
}

function None({ filtered, onNew }: { filtered: boolean; onNew: () => void }): ReactNode {
  if (filtered) return <Empty title="No review is like that">The search looks at names.</Empty>;
  return (
    <Empty title="No reviews yet" icon={<UsersRound />}>
      <p>A review asks people what they think of answers, one at a time, and says how much they agree with each other and with your judges.</p>
      <p className="my-4"><Button look="main" onClick={onNew}><Plus aria-hidden className="size-4" />New review</Button></p>
      <p className="text-[13px]">It needs answers: those of an <Link href="/evaluations" className="text-accent underline underline-offset-2">evaluation</Link> that has run.</p>
    </Empty>
  );
}
