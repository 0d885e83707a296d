/** /reviews: list of reviews, newest first, and the dialog for a new one. */
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { Plus, UsersRound } from 'lucide-react';
import { lazy, Suspense, useState, type ReactNode } from 'react';
import { Link, useSearchParams } from 'wouter';
import { useCommand } from '@/app/commands';
import { Button } from '@/components/button';
import { TextField, SegmentedControl } from '@/components/form-fields';
import { Badge, EmptyState, LoadError, Loading, MoreButton } from '@/components/status';
import { cn } from '@/lib/cn';
import { formatDateTime, formatTimeAgo, pluralize } from '@/lib/format';
import { useTitle, useDebounced } from '@/lib/hooks';
import { safeProse } from '@/lib/safe-text';
import { formatScore } from '@/pages/evaluations/format';
import { summarizeAgreement } from './answers';
import { ReviewProgressBar } from './progress-bar';
import { reviewPagesQuery, reviewSummaryQuery, type ReviewRow } from './queries';

const NewDialog = lazy(() => import('./new-dialog'));
const STATE_LABELS = { all: 'All', open: 'Open', closed: 'Closed' };

export default function ReviewsPage(): ReactNode {
  useTitle('Reviews');
  const [params, setParams] = useSearchParams();
  const [searchText, setSearchText] = useState('');
  const [state, setState] = useState<keyof typeof STATE_LABELS>('all');
  const search = useDebounced(searchText.trim(), 250);
  const isNew = params.get('new') === '1';
  const open = () => setParams({ new: '1' });
  useCommand({ id: 'new-review', title: 'New review', group: 'Reviews', run: open });
  return (
    <div className="flex h-full flex-col">
      <header className="flex shrink-0 flex-wrap items-center gap-2 border-b bg-surface px-4 py-2.5 sm:px-6">
        <h1 className="mr-auto text-base font-semibold">Reviews</h1>
        <SegmentedControl label="State" options={STATE_LABELS} value={state} onChange={setState} />
        <TextField
          type="search"
          aria-label="Find a review"
          placeholder="Find by name"
          dir="auto"
          maxLength={200}
          value={searchText}
          onChange={(event) => setSearchText(event.target.value)}
          className="w-auto max-w-72 min-w-32 grow max-sm:order-last"
        />
        <Button variant="main" onClick={open}>
          <Plus aria-hidden className="size-4" />
          New review
        </Button>
      </header>
      <div className="min-h-0 grow overflow-y-auto">
        <div className="mx-auto max-w-5xl sm:px-2">
          <ReviewResults search={search} state={state === 'all' ? null : state} onNew={open} />
        </div>
      </div>
      {isNew && (
        <Suspense>
          <NewDialog run={params.get('run')} onClose={() => setParams({})} />
        </Suspense>
      )}
    </div>
  );
}

function ReviewResults({
  search,
  state,
  onNew,
}: {
  search: string;
  state: string | null;
  onNew: () => void;
}): ReactNode {
  const { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery(
    reviewPagesQuery(search, state),
  );
  const rows = data?.pages.flatMap((page) => page.data) ?? [];
  if (error && !data) return <LoadError error={error} onRetry={refetch} className="p-4" />;
  if (!data) return <Loading className="p-6" />;
  if (rows.length === 0) return <NoReviews isFiltered={search !== '' || state !== null} onNew={onNew} />;
  return (
    <>
      <ul aria-label="Reviews">
        {rows.map((row) => (
          <ReviewListItem key={row.id} row={row} />
        ))}
      </ul>
      {hasNextPage && (
        <MoreButton busy={isFetchingNextPage} onClick={fetchNextPage} className="flex justify-center p-3" />
      )}
    </>
  );
}

function NoReviews({ isFiltered, onNew }: { isFiltered: boolean; onNew: () => void }): ReactNode {
  if (isFiltered) return <EmptyState title="No matching reviews">Search covers review names only.</EmptyState>;
  return (
    <EmptyState title="No reviews yet" icon={<UsersRound />}>
      <p>
        In a review, people rate answers one at a time. The review shows how well they agree with each other and with
        your judges.
      </p>
      <p className="my-4">
        <Button variant="main" onClick={onNew}>
          <Plus aria-hidden className="size-4" />
          New review
        </Button>
      </p>
      <p className="text-[13px]">
        To create one, first run an{' '}
        <Link href="/evaluations" className="text-accent underline underline-offset-2">
          evaluation
        </Link>
        .
      </p>
    </EmptyState>
  );
}

export function ReviewListItem({ row }: { row: ReviewRow }): ReactNode {
  const { data } = useQuery(reviewSummaryQuery(row));
  const answersWanted = data?.progress.wanted ?? row.items * row.reviewers;
  const answers = data?.progress.answers ?? Math.min(row.answers, answersWanted);
  return (
    <li className="border-b">
      <Link
        href={`/reviews/${row.id}`}
        className={cn(
          'grid gap-x-6 gap-y-1.5 px-4 py-3 -outline-offset-2 hover:bg-sunken/60',
          'sm:grid-cols-[minmax(0,1fr)_11rem_12rem] sm:items-center',
        )}
      >
        <span className="min-w-0">
          <span className="flex min-w-0 items-center gap-2">
            <span dir="auto" className="truncate font-medium" title={row.name}>
              {safeProse(row.name)}
            </span>
            {row.state === 'closed' && <Badge>Closed</Badge>}
            {row.blind && <Badge title="Scores and variants are hidden from reviewers">Blind</Badge>}
          </span>
          <span className="block truncate text-xs text-muted" dir="auto" title={row.questions.join(', ')}>
            {safeProse(row.questions.join(', '))} ·{' '}
            <time dateTime={row.created_at} title={formatDateTime(row.created_at)}>
              {formatTimeAgo(row.created_at)}
            </time>
          </span>
        </span>
        <span className="flex min-w-0 flex-col gap-1">
          <span className="text-xs text-muted tabular-nums">
            {answers.toLocaleString('en')} of {pluralize(answersWanted, 'answer')}
          </span>
          <ReviewProgressBar answers={answers} target={answersWanted} />
        </span>
        <AgreementText row={row} />
      </Link>
    </li>
  );
}

function AgreementText({ row }: { row: ReviewRow }): ReactNode {
  const { data } = useQuery(reviewSummaryQuery(row));
  const agreements = summarizeAgreement(data?.agreement ?? []);
  if (agreements.length === 0) {
    return (
      <span className="text-xs text-faint">
        {row.reviewers < 2 ? 'One reviewer per item' : 'No item has answers from two reviewers yet'}
      </span>
    );
  }
  return (
    <span className="flex min-w-0 flex-col text-xs" aria-label="Agreement" role="group">
      {agreements.slice(0, 3).map(({ question, percent, kappa }) => (
        <span key={question} className="flex min-w-0 gap-1.5 tabular-nums">
          <span className="w-11 shrink-0">{Math.round(percent)}%</span>
          <span className="w-13 shrink-0 text-muted">
            {kappa === null ? '' : `κ ${formatScore(Math.round(kappa * 100) / 100)}`}
          </span>
          <span className="min-w-0 truncate text-muted" dir="auto">
            {safeProse(question)}
          </span>
        </span>
      ))}
      {agreements.length > 3 && <span className="text-faint">and {agreements.length - 3} more</span>}
    </span>
  );
}
