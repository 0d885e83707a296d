/** Answers so far by reviewer and item, and the agreement between reviewers. */
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { Badge, LoadError, MoreButton, Spinner } from '@/components/status';
import { LongText } from '@/components/text';
import { cn } from '@/lib/cn';
import { formatDateTime, pluralize } from '@/lib/format';
import { safeProse } from '@/lib/safe-text';
import { formatScore } from '@/pages/evaluations/format';
import { formatAnswer, describeKappa } from './answers';
import { itemPagesQuery, type ReviewItemRow, type Review, agreementQuery, type Agreement } from './queries';
import { itemNumber } from './queue';

export function AnswersSection({ review }: { review: Review }): ReactNode {
  const { data, error, refetch, hasNextPage, isFetchingNextPage, fetchNextPage } = useInfiniteQuery(
    itemPagesQuery(review.id),
  );
  const rows = data?.pages.flatMap((page) => page.data) ?? [];
  return (
    <section aria-label="Answers" className="min-w-0">
      <h2 className="font-semibold">Answers</h2>
      <p className="mb-2 text-[13px] text-muted">
        {review.progress.reviewers.length === 0
          ? 'No answers yet.'
          : review.progress.reviewers
              .map(
                ({ reviewer, answered, skipped }) =>
                  `${safeProse(reviewer)}: ${pluralize(answered, 'item')}${skipped > 0 ? `, ${skipped} skipped` : ''}`,
              )
              .join(' · ')}
      </p>
      {error && <LoadError error={error} onRetry={refetch} />}
      {!data && !error && <Spinner />}
      <ul aria-label="Items" className="flex flex-col gap-2">
        {rows.map((item) => (
          <ItemLine key={item.id} item={item} review={review} />
        ))}
      </ul>
      {hasNextPage && (
        <MoreButton className="flex justify-center p-3" busy={isFetchingNextPage} onClick={fetchNextPage} />
      )}
    </section>
  );
}

const STATE_BADGES = {
  open: null,
  done: <Badge tone="good">Done</Badge>,
  gone: (
    <Badge tone="warn" title="The reviewed result no longer exists">
      Deleted
    </Badge>
  ),
};

function ItemLine({ item, review }: { item: ReviewItemRow; review: Review }): ReactNode {
  const counted = item.annotations.filter(({ counts }) => counts);
  const href =
    review.run && item.result
      ? `/evaluations/${review.run}?cell=${item.result}`
      : item.trace_id
        ? `/traces/${item.trace_id}`
        : null;
  return (
    <li className="min-w-0 rounded-xl border bg-surface px-3 py-2">
      <div className="flex flex-wrap items-center gap-2">
        {href && item.state !== 'gone' ? (
          <Link href={href} className="font-medium hover:text-accent hover:underline">
            Item {itemNumber(item)}
          </Link>
        ) : (
          <span className="font-medium">Item {itemNumber(item)}</span>
        )}
        {STATE_BADGES[item.state]}
        <span className="text-xs text-muted tabular-nums">
          {item.answered} of {pluralize(review.reviewers, 'answer')}
        </span>
      </div>
      {counted.length > 0 && (
        <ul className="mt-1 flex flex-col gap-1">
          {counted.map(({ number, reviewer, answers, comment, created_at: createdAt }) => (
            <li key={number} className="min-w-0 text-[13px]">
              <span className="flex min-w-0 flex-wrap items-baseline gap-x-3 gap-y-0.5">
                <bdi title={formatDateTime(createdAt)} className="min-w-20 text-muted wrap-anywhere">
                  {safeProse(reviewer)}
                </bdi>
                {review.questions
                  .filter(({ key }) => Object.hasOwn(answers, key))
                  .map(({ key }) => (
                    <span key={key} className="min-w-0 wrap-anywhere">
                      <span className="text-faint">{safeProse(key)}</span>{' '}
                      <bdi className="font-medium whitespace-pre-wrap">
                        <LongText text={formatAnswer(answers[key])} />
                      </bdi>
                    </span>
                  ))}
              </span>
              {comment && (
                <p dir="auto" className="text-muted wrap-anywhere whitespace-pre-wrap">
                  <LongText text={comment} />
                </p>
              )}
            </li>
          ))}
        </ul>
      )}
    </li>
  );
}

/** Agreement by question and pair of raters (reviewers or judges): common items, percent alike and Cohen's kappa. */
export function AgreementSection({ review }: { review: Review }): ReactNode {
  const { data, error, refetch } = useQuery(agreementQuery(review.id));
  const rows = data?.data ?? [];
  return (
    <section aria-label="Agreement" className="min-w-0">
      <h2 className="font-semibold">Agreement</h2>
      <p className="mb-2 text-[13px] text-muted">
        For each pair of raters, on the items that both answered: the share of identical answers, and Cohen’s kappa,
        which corrects for agreement by chance. For scores, close values count as partial agreement.
      </p>
      {error && <LoadError error={error} onRetry={refetch} />}
      {!data && !error && <Spinner />}
      {data && rows.length === 0 && (
        <p className="text-faint">
          {review.reviewers < 2
            ? 'Agreement needs at least two reviewers per item.'
            : 'No two reviewers have answered the same item yet.'}
        </p>
      )}
      {rows.length > 0 && (
        <div className="overflow-x-auto rounded-xl border bg-surface">
          <table className="w-full text-[13px]">
            <thead>
              <tr
                className={cn(
                  'border-b text-left text-xs text-faint [&>th]:px-2',
                  '[&>th]:py-1.5 sm:[&>th]:px-3 [&>th]:font-medium',
                )}
              >
                <th scope="col">Question</th>
                <th scope="col">Reviewers</th>
                <th scope="col" className="text-right">
                  Items
                </th>
                <th scope="col" className="text-right">
                  Identical answers
                </th>
                <th scope="col">Kappa</th>
              </tr>
            </thead>
            <tbody>
              {rows.map((row) => (
                <AgreementRow key={`${row.question} ${row.kind} ${row.raters.join(' ')}`} row={row} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function AgreementRow({ row: { question, raters, kind, n, percent, kappa } }: { row: Agreement }): ReactNode {
  return (
    <tr className="border-b last:border-0 [&>td]:px-2 [&>td]:py-1.5 sm:[&>td]:px-3">
      <td dir="auto" className="max-w-48 wrap-anywhere">
        {safeProse(question)}
      </td>
      <td className="wrap-anywhere sm:min-w-40">
        <bdi>{safeProse(raters[0])}</bdi> <span className="text-faint">and</span> <bdi>{safeProse(raters[1])}</bdi>{' '}
        {kind === 'judge' && <Badge>Judge</Badge>}
      </td>
      <td className="text-right tabular-nums">{n.toLocaleString('en')}</td>
      <td className="text-right whitespace-nowrap tabular-nums">
        {percent === null ? '–' : `${Math.round(percent)}%`}
      </td>
      <td className="whitespace-nowrap tabular-nums">
        {kappa === null ? (
          <span
            className="text-faint"
            title="Undefined: one of the raters always gives the same answer, or there is nothing to compare."
          >
            –
          </span>
        ) : (
          <>
            {formatScore(Math.round(kappa * 100) / 100)}{' '}
            <span className="text-muted max-sm:hidden">{describeKappa(kappa)}</span>
          </>
        )}
      </td>
    </tr>
  );
}
