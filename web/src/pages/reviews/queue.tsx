/** Queue of one reviewer: one item at a time, reserved while it is shown. */
import { useMutation, useQuery } from '@tanstack/react-query';
import { CircleCheckBig, ListTree } from 'lucide-react';
import { useEffect, useEffectEvent, type ReactNode, useMemo } from 'react';
import { Link } from 'wouter';
import { api } from '@/api/client';
import { useCommand } from '@/app/commands';
import { Button } from '@/components/button';
import { CollapsibleSection } from '@/components/collapsible';
import { JsonBox } from '@/components/json-view';
import { EmptyState, LoadError, Loading, ErrorMessage, Spinner } from '@/components/status';
import { showError } from '@/components/toast';
import { safeProse } from '@/lib/safe-text';
import { ScoreCard } from '@/pages/evaluations/badges';
import { wholeConversation, ConversationView, ValueView } from '@/pages/evaluations/result-values';
import { AnswerForm } from './answer-form';
import type { Answers } from './answers';
import {
  nextItemQuery,
  releaseItem,
  invalidateReview,
  type Review,
  expectedQuery,
  type ItemContent,
  type ReviewItem,
} from './queries';

interface QueueProps {
  review: Review;
  /** Null: identified by the API key. */
  reviewer: string | null;
  onAnswers: () => void;
}

/** Reservations with less time left are renewed while the reviewer works. */
const RENEW_BEFORE_MS = 5 * 60_000;

export function Queue({ review, reviewer, onAnswers }: QueueProps): ReactNode {
  const { id } = review;
  const { data, error, isFetching, refetch } = useQuery(nextItemQuery(id, reviewer));
  const item = data?.item ?? null;
  const itemId = item?.id ?? null;
  const path = { review: id, item: itemId ?? '' };
  const loadNext = async () => {
    invalidateReview(id);
    await refetch();
  };
  const save = useMutation({
    mutationFn: ({ answers, comment }: { answers: Answers; comment: string }) =>
      api('post', '/api/reviews/{review}/items/{item}/answers', {
        path,
        body: { answers: { ...answers }, comment, reviewer },
      }),
    onSuccess: loadNext,
  });
  const skip = useMutation({
    mutationFn: () => api('post', '/api/reviews/{review}/items/{item}/skip', { path, body: { reviewer } }),
    onSuccess: () => {
      save.reset();
      return loadNext();
    },
    onError: showError,
  });
  useRelease(id, itemId, reviewer);
  const busy = save.isPending || skip.isPending || isFetching;
  const onSkip = () => !busy && skip.mutate();
  useCommand(item && { id: 'review-skip', title: 'Skip this item', group: 'Review', keys: 's', run: onSkip });
  if (error) return <LoadError error={error} onRetry={refetch} className="p-4" />;
  if (!data) return <Loading className="p-6" />;
  if (!item?.content)
    return (
      <EmptyQueue review={review} reviewerName={data.reviewer} onAgain={() => void loadNext()} onAnswers={onAnswers} />
    );
  const renew = () => {
    const remainingMs = data.until ? Date.parse(data.until) - Date.now() : 0;
    // An expired reservation may belong to another reviewer; the server rejects the answer then.
    if (remainingMs > 0 && remainingMs < RENEW_BEFORE_MS && !busy) void refetch();
  };
  return (
    <div
      aria-busy={busy}
      className="@container min-h-0 grow overflow-y-auto lg:grid lg:grid-cols-[minmax(0,1fr)_24rem] lg:overflow-hidden"
    >
      <ItemView key={item.id} item={item} review={review} />
      <AnswerForm
        key={`${item.id} form`}
        questions={review.questions}
        busy={busy}
        error={save.error}
        onChange={renew}
        onSave={(answers, comment) => !busy && save.mutate({ answers, comment })}
        onSkip={onSkip}
        onNext={() => {
          save.reset();
          void loadNext();
        }}
      />
    </div>
  );
}

/** Release the reserved item when the reviewer leaves; answered items are not reserved any more. */
function useRelease(review: string, item: string | null, reviewer: string | null): void {
  const releaseCurrent = useEffectEvent(() => item !== null && releaseItem(review, item, reviewer));
  useEffect(() => {
    const onHide = () => void releaseCurrent();
    window.addEventListener('pagehide', onHide);
    return () => {
      window.removeEventListener('pagehide', onHide);
      void releaseCurrent();
    };
  }, []);
}

interface EmptyQueueProps {
  review: Review;
  reviewerName: string;
  onAgain: () => void;
  onAnswers: () => void;
}

function EmptyQueue({ review, reviewerName, onAgain, onAnswers }: EmptyQueueProps): ReactNode {
  const { progress } = review;
  const counts = progress.reviewers.find(({ reviewer }) => reviewer === reviewerName);
  const isDone = progress.answers >= progress.wanted;
  return (
    <div className="min-h-0 grow overflow-y-auto">
      <EmptyState title={isDone ? 'All reviewed' : 'You’re done'} icon={<CircleCheckBig />}>
        <p>
          {isDone
            ? 'Every item has the required number of answers.'
            : 'The remaining items are assigned to other reviewers, or you have answered or skipped them.'}
          {counts && ` You answered ${counts.answered}${counts.skipped > 0 ? ` and skipped ${counts.skipped}` : ''}.`}
        </p>
        <div className="flex flex-wrap justify-center gap-2 pt-4">
          <Button variant="main" onClick={onAnswers}>
            View answers
          </Button>
          {!isDone && <Button onClick={onAgain}>Refresh</Button>}
        </div>
      </EmptyState>
    </div>
  );
}

interface ItemViewProps {
  item: ReviewItem;
  review: Pick<Review, 'id' | 'blind' | 'run'>;
}

/** Input, output and expected output of an item; in a blind review the latter is fetched when opened. */
export function ItemView({ item, review: { id, blind, run } }: ItemViewProps): ReactNode {
  const { content } = item;
  if (!content) return null;
  const inputCount = Object.keys(content.inputs).length;
  const hasTurns = content.turns.length > 1;
  const showExpected = content.has_expected && !blind;
  return (
    <section
      ref={focusWithoutScroll}
      tabIndex={-1}
      aria-label={`Item ${itemNumber(item)}`}
      className="@container min-h-0 min-w-0 px-4 py-4 outline-none sm:px-6 lg:overflow-y-auto"
    >
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1 pb-3">
        <h2 className="font-semibold">Item {itemNumber(item)}</h2>
        {content.variant && (
          <span dir="auto" className="text-[13px] text-muted wrap-anywhere">
            answered by {safeProse(content.variant)}
          </span>
        )}
        <span className="grow" />
        {!blind && <ItemLinks item={item} run={run} />}
      </div>
      <div className="flex flex-col gap-4">
        {!hasTurns && content.history.length > 0 && (
          <Pane title="Input">
            <ConversationView messages={content.history} label="Input messages" />
          </Pane>
        )}
        {inputCount > 0 && (
          <CollapsibleSection title="Inputs" count={inputCount} open={content.history.length === 0}>
            <JsonBox value={content.inputs} />
          </CollapsibleSection>
        )}
        <div className={showExpected ? 'grid items-start gap-4 @xl:grid-cols-2' : undefined}>
          {showExpected && (
            <Pane title="Expected">
              <ValueView value={content.expected} label="Expected messages" />
            </Pane>
          )}
          <Pane title={hasTurns ? 'Conversation' : 'Output'} isMain>
            <Answer content={content} />
          </Pane>
        </div>
        {content.has_expected && blind && (
          <CollapsibleSection title="Expected answer">
            <Expected review={id} item={item.id} />
          </CollapsibleSection>
        )}
        {content.scores.length > 0 && (
          <CollapsibleSection title="Scores" count={content.scores.length}>
            <div className="grid items-start gap-2 pt-1 @2xl:grid-cols-2">
              {content.scores.map((score) => (
                <ScoreCard key={score.evaluator} score={score} />
              ))}
            </div>
          </CollapsibleSection>
        )}
      </div>
    </section>
  );
}

function Expected({ review, item }: { review: string; item: string }): ReactNode {
  const { data, error } = useQuery(expectedQuery(review, item));
  if (error) return <ErrorMessage error={error} />;
  return data ? <ValueView value={data.expected} label="Expected messages" /> : <Spinner />;
}

/** Focus the next item, so that it is announced and keys apply to it. */
const focusWithoutScroll = (element: HTMLElement | null): void => element?.focus({ preventScroll: true });

/** 1-based number of an item. */
export const itemNumber = ({ id }: { id: string }): number => Number(id.replace('item_', '')) + 1;

function ItemLinks({ item, run }: { item: ReviewItem; run: string | null }): ReactNode {
  const href =
    run && item.result ? `/evaluations/${run}?cell=${item.result}` : item.trace_id ? `/traces/${item.trace_id}` : null;
  return (
    href && (
      <Link href={href} className="inline-flex items-center gap-1.5 text-[13px] text-muted hover:text-accent">
        <ListTree aria-hidden className="size-3.5" />
        {run && item.result ? 'Result' : 'Trace'}
      </Link>
    )
  );
}

function Pane({
  title,
  isMain = false,
  children,
}: {
  title: string;
  isMain?: boolean;
  children: ReactNode;
}): ReactNode {
  return (
    <section aria-label={title} className="flex min-w-0 flex-col">
      <h3 className="mb-1 text-[13px] font-medium text-muted">{title}</h3>
      <div
        className={
          isMain
            ? 'min-h-16 rounded-xl border border-strong-line bg-surface p-3'
            : 'max-h-[45dvh] min-h-16 overflow-y-auto rounded-xl border bg-surface p-3'
        }
      >
        {children}
      </div>
    </section>
  );
}

function Answer({ content }: { content: ItemContent }): ReactNode {
  const messages = useMemo(() => (content.turns.length > 1 ? wholeConversation(content) : content.messages), [content]);
  if (messages.length > 0) return <ConversationView messages={messages} label="Output messages" />;
  if (Object.hasOwn(content, 'value')) return <ValueView value={content.value} label="Output messages" />;
  return (
    <p dir="auto" className={content.text ? 'wrap-anywhere whitespace-pre-wrap' : 'text-faint'}>
      {safeProse(content.text) || 'Empty answer.'}
    </p>
  );
}
