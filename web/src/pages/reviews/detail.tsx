/** /reviews/:id: queue and answers of one review. */
import { useQuery } from '@tanstack/react-query';
import { Lock, LockOpen, MoreHorizontal, Pencil, UserRound } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { useSearchParams, Link, useLocation } from 'wouter';
import { api } from '@/api/client';
import { queryClient } from '@/api/queries';
import { sessionQuery } from '@/app/auth';
import { Button, IconButton } from '@/components/button';
import { askText, askConfirmation } from '@/components/confirm-dialog';
import { TextField, SegmentedControl } from '@/components/form-fields';
import { DeleteMenuItem, Menu, MenuItem } from '@/components/menu';
import { Badge, EmptyState, LoadError, Loading } from '@/components/status';
import { showToast, showError } from '@/components/toast';
import { focusRef } from '@/lib/dom';
import { formatDateTime, formatTimeAgo, pluralize } from '@/lib/format';
import { useTitle } from '@/lib/hooks';
import { safeProse } from '@/lib/safe-text';
import { AgreementSection, AnswersSection } from './answers-tab';
import { ReviewProgressBar } from './progress-bar';
import { reviewQuery, invalidateReview, type Review } from './queries';
import { Queue } from './queue';

export default function ReviewPage({ id }: { id: string }): ReactNode {
  const { data: review, error, refetch } = useQuery(reviewQuery(id));
  useTitle(review?.name ?? 'Review');
  const [params, setParams] = useSearchParams();
  const tab = params.get('tab') === 'answers' ? 'answers' : 'queue';
  const session = useQuery(sessionQuery());
  const [name, setName] = useState(storedReviewer);
  if (error && !review) return <LoadError error={error} onRetry={refetch} className="p-4" />;
  if (!review || session.isPending) return <Loading className="p-6" />;
  const hasKey = Boolean(session.data?.key);
  const saveReviewer = (reviewerName: string) => {
    storeReviewer(reviewerName);
    setName(reviewerName);
  };
  return (
    <div className="flex h-full flex-col">
      <ReviewHeader
        review={review}
        tab={tab}
        onTab={(next) => setParams(next === 'answers' ? { tab: next } : {})}
        {...(hasKey || !name ? {} : { name, onName: () => setName(null) })}
      />
      {tab === 'answers' && (
        <div className="min-h-0 grow overflow-y-auto px-4 py-4 sm:px-6">
          <div className="mx-auto flex max-w-5xl flex-col gap-6">
            <AgreementSection review={review} />
            <AnswersSection review={review} />
          </div>
        </div>
      )}
      {tab === 'queue' && review.state === 'closed' && (
        <EmptyState title="This review is closed">
          It no longer accepts answers. Existing ones are in the Answers tab.
        </EmptyState>
      )}
      {tab === 'queue' &&
        review.state === 'open' &&
        (hasKey || name ? (
          <Queue
            key={name}
            review={review}
            reviewer={hasKey ? null : name}
            onAnswers={() => setParams({ tab: 'answers' })}
          />
        ) : (
          <ReviewerForm onName={saveReviewer} />
        ))}
    </div>
  );
}

export type Tab = 'queue' | 'answers';
const TABS: Readonly<Record<Tab, string>> = { queue: 'Queue', answers: 'Answers' };

interface Props {
  review: Review;
  tab: Tab;
  onTab: (tab: Tab) => void;
  /** Name of the reviewer, if it can be changed. */
  name?: string;
  onName?: () => void;
}

export function ReviewHeader({ review, tab, onTab, name, onName }: Props): ReactNode {
  const { id, progress } = review;
  const [, navigate] = useLocation();
  const path = { review: id };
  const change = (body: { name?: string; state?: 'open' | 'closed' }) =>
    api('patch', '/api/reviews/{review}', { path, body }).then(() => invalidateReview(id));
  const rename = async () => {
    const newName = await askText({ title: 'Rename review', label: 'Name', value: review.name, act: 'Rename' });
    if (newName) await change({ name: newName });
  };
  const remove = async () => {
    if (
      !(await askConfirmation({
        title: 'Delete this review?',
        text: `“${review.name}” and all its answers will be deleted. The reviewed results are kept.`,
        act: 'Delete',
        danger: true,
      }))
    )
      return;
    await api('delete', '/api/reviews/{review}', { path });
    void queryClient.invalidateQueries({ queryKey: ['reviews'] });
    showToast('Review deleted.');
    navigate('/reviews');
  };
  const isOpen = review.state === 'open';
  return (
    <header className="flex shrink-0 flex-wrap items-center gap-x-4 gap-y-2 border-b bg-surface px-4 py-3 sm:px-6">
      <div className="min-w-0 grow basis-72">
        <div className="flex flex-wrap items-center gap-x-2">
          <Link href="/reviews" className="text-[13px] text-muted hover:text-accent">
            Reviews
          </Link>
          <span aria-hidden className="text-faint">
            /
          </span>
          <h1 dir="auto" className="min-w-0 text-base font-semibold wrap-anywhere">
            {safeProse(review.name)}
          </h1>
          {!isOpen && <Badge>Closed</Badge>}
          {review.blind && <Badge title="Scores and variants are hidden">Blind</Badge>}
        </div>
        <p className="mt-0.5 text-[13px] text-muted">
          {pluralize(review.items, 'item')} × {pluralize(review.reviewers, 'reviewer')}
          {progress.gone > 0 && <span className="text-warn"> · {progress.gone.toLocaleString('en')} deleted</span>}
          {' · '}
          <time dateTime={review.created_at} title={formatDateTime(review.created_at)}>
            {formatTimeAgo(review.created_at)}
          </time>
          {review.run && (
            <>
              {' '}
              ·{' '}
              <Link href={`/evaluations/${review.run}`} className="hover:text-accent hover:underline">
                Evaluation
              </Link>
            </>
          )}
          {name && (
            <>
              {' '}
              · reviewing as <bdi className="font-medium text-ink">{safeProse(name)}</bdi>{' '}
              <button type="button" onClick={onName} className="text-accent hover:underline">
                Change name
              </button>
            </>
          )}
        </p>
      </div>
      <div className="flex w-44 flex-col gap-1">
        <span className="text-xs text-muted tabular-nums">
          {progress.answers.toLocaleString('en')} of {pluralize(progress.wanted, 'answer')}
        </span>
        <ReviewProgressBar answers={progress.answers} target={progress.wanted} />
      </div>
      <div className="flex items-center gap-1.5">
        <SegmentedControl label="View" options={TABS} value={tab} onChange={onTab} />
        <Menu
          trigger={
            <IconButton label="More">
              <MoreHorizontal />
            </IconButton>
          }
        >
          <MenuItem icon={<Pencil />} onSelect={() => void rename().catch(showError)}>
            Rename
          </MenuItem>
          <MenuItem
            icon={isOpen ? <Lock /> : <LockOpen />}
            onSelect={() => void change({ state: isOpen ? 'closed' : 'open' }).catch(showError)}
          >
            {isOpen ? 'Close review' : 'Reopen review'}
          </MenuItem>
          <DeleteMenuItem onSelect={() => void remove().catch(showError)} />
        </Menu>
      </div>
    </header>
  );
}

/** Asks for the reviewer's name on a server without keys. */
export function ReviewerForm({ onName }: { onName: (name: string) => void }): ReactNode {
  const [text, setText] = useState(() => storedReviewer() ?? '');
  const name = text.trim();
  return (
    <EmptyState title="Enter your name" icon={<UserRound />}>
      <p>Your answers are saved under this name, so they can be compared with those of other reviewers.</p>
      <form
        className="mt-4 flex gap-2"
        onSubmit={(event) => {
          event.preventDefault();
          if (name) onName(name);
        }}
      >
        <TextField
          ref={focusRef}
          dir="auto"
          aria-label="Your name"
          placeholder="Your name"
          maxLength={MAX_NAME_LENGTH}
          autoComplete="nickname"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        <Button type="submit" variant="main" disabled={!name}>
          Start
        </Button>
      </form>
    </EmptyState>
  );
}

const STORAGE_KEY = 'palaver.reviewer';
export const MAX_NAME_LENGTH = 100;

export function storedReviewer(): string | null {
  return localStorage.getItem(STORAGE_KEY)?.trim().slice(0, MAX_NAME_LENGTH) || null;
}

export function storeReviewer(name: string): void {
  try {
    localStorage.setItem(STORAGE_KEY, name);
  } catch {
    // Storage may be full or forbidden: the name lasts as long as the page.
  }
}
