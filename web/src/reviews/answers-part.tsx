/** What was said so far: who did how much, and item by item what each of them answered. */
import { useInfiniteQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { formatDateTime, pluralize } from '@/lib/format';
import { prose } from '@/lib/safe-text';
import { LongText } from '@/components/text';
import { Badge, Problem, Spinner } from '@/components/status';
import { Button } from '@/components/button';
import { told } from './answering';
import { numberOf } from './item-view';
import { itemPages, type ItemRow, type Review } from './queries';

export function AnswersPart({ review }: { review: Review }): ReactNode {
  const { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery(itemPages(review.id));
  const rows = data?.pages.flatMap((page) => page.data) ?? [];
  return (
    <section aria-label="Answers" className="min-w-0">
      <h2 className="font-semibold">Answers</h2>
      <p className="mb-2 text-[13px] text-muted">
        {review.progress.reviewers.length === 0
          ? 'Nobody has answered yet.'
          : review.progress.reviewers.map(({ reviewer, answered, skipped }) => `${prose(reviewer)}: ${pluralize(answered, 'item')}${skipped > 0 ? `, ${skipped} skipped` : ''}`).join(' · ')}
      </p>
      {error && <Problem error={error}><Button size="small" onClick={() => void refetch()}>Try again</Button></Problem>}
      {!data && !error && <Spinner />}
      <ul aria-label="Items" className="flex flex-col gap-2">{rows.map((item) => <ItemLine key={item.id} item={item} review={review} />)}</ul>
      {hasNextPage && <div className="flex justify-center p-3"><Button size="small" disabled={isFetchingNextPage} onClick={() => void fetchNextPage()}>More items</Button></div>}
    </section>
  );
}

const STATES = { open: null, done: <Badge tone="good">Done</Badge>, gone: <Badge tone="warn" title="What it is about is no longer there">Gone</Badge> };

function ItemLine({ item, review }: { item: ItemRow; review: Review }): ReactNode {
  const said = item.annotations.filter(({ counts }) => counts);
  const href = review.run && item.result ? `/evaluations/${review.run}?cell=${item.result}` : item.trace_id ? `/traces/${item.trace_id}` : null;
  return (
    <li className="min-w-0 rounded-xl border bg-surface px-3 py-2">
      <div className="flex flex-wrap items-center gap-2">
        {href && item.state !== 'gone' ? <Link href={href} className="font-medium hover:text-accent hover:underline">Item {numberOf(item)}</Link> : <span className="font-medium">Item {numberOf(item)}</span>}
        {STATES[item.state]}
        <span className="text-xs text-muted tabular-nums">{item.answered} of {pluralize(review.reviewers, 'answer')}</span>
      </div>
      {said.length > 0 && (
        <ul className="mt-1 flex flex-col gap-1">
          {said.map(({ number, reviewer, answers, comment, created_at: at }) => (
            <li key={number} className="min-w-0 text-[13px]">
              <span className="flex min-w-0 flex-wrap items-baseline gap-x-3 gap-y-0.5">
                <bdi title={formatDateTime(at)} className="min-w-20 text-muted wrap-anywhere">{prose(reviewer)}</bdi>
                {review.questions.filter(({ key }) => Object.hasOwn(answers, key)).map(({ key }) => (
                  <span key={key} className="min-w-0 wrap-anywhere"><span className="text-faint">{prose(key)}</span> <bdi className="font-medium whitespace-pre-wrap"><LongText text={told(answers[key])} /></bdi></span>
                ))}
              </span>
              {comment && <p dir="auto" className="text-muted wrap-anywhere whitespace-pre-wrap"><LongText text={comment} /></p>}
            </li>
          ))}
        </ul>
      )}
    </li>
  );
}
