/** One item at a time: it is held while it is shown, answered or skipped, and given back by who leaves. */
import { useMutation, useQuery } from '@tanstack/react-query';
import { CircleCheckBig } from 'lucide-react';
import { useEffect, useEffectEvent, type ReactNode } from 'react';
import { api } from '@/api/client';
import { useCommand } from '@/app/commands';
import { Empty, Problem, Spinner } from '@/components/status';
import { Button } from '@/components/button';
import { tellError } from '@/components/toast';
import { AnswerForm } from './answer-form';
import type { Answers } from './answering';
import { ItemView } from './item-view';
import { next as nextOf, release, staleReview, type Review } from './queries';

interface Props {
  review: Review;
  /** Null: their key says who they are. */
  reviewer: string | null;
  onAnswers: () => void;
}

/** An item of which less is left, in milliseconds, is asked for again by who goes on working. */
const RENEW = 5 * 60_000;

export function Queue({ review, reviewer, onAnswers }: Props): ReactNode {
  const { id } = review;
  const { data, error, isFetching, refetch } = useQuery(nextOf(id, reviewer));
  const item = data?.item ?? null;
  const given = item?.id ?? null;
  const path = { review: id, item: given ?? '' };
  const goOn = async () => {
    staleReview(id);
    await refetch();
  };
  const save = useMutation({
    mutationFn: ({ answers, comment }: { answers: Answers; comment: string }) =>
      api('post', '/api/reviews/{review}/items/{item}/answers', { path, body: { answers: { ...answers }, comment, reviewer } }),
    onSuccess: goOn,
  });
  const skip = useMutation({
    mutationFn: () => api('post', '/api/reviews/{review}/items/{item}/skip', { path, body: { reviewer } }),
    onSuccess: () => {
      save.reset();
      return goOn();
    },
    onError: tellError,
  });
  useRelease(id, given, reviewer);
  const busy = save.isPending || skip.isPending || isFetching;
  const onSkip = () => !busy && skip.mutate();
  useCommand(item && { id: 'review-skip', title: 'Skip this item', group: 'Review', keys: 's', run: onSkip });
  if (error) return <div className="p-4"><Problem error={error}><Button size="small" onClick={() => void refetch()}>Try again</Button></Problem></div>;
  if (!data) return <div className="p-6"><Spinner /></div>;
  if (!item?.content) return <Nothing review={review} mine={data.reviewer} onAgain={() => void goOn()} onAnswers={onAnswers} />;
  const renew = () => {
    const rest = data.until ? Date.parse(data.until) - Date.now() : 0;
    // What ran out may be somebody else's now: the server says so when it is answered.
    if (rest > 0 && rest < RENEW && !busy) void refetch();
  };
  return (
    <div aria-busy={busy} className="@container min-h-0 grow overflow-y-auto lg:grid lg:grid-cols-[minmax(0,1fr)_24rem] lg:overflow-hidden">
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
          void goOn();
        }}
      />
    </div>
  );
}

/** What is held is given back by who goes elsewhere, or closes the tab; what they have answered is not theirs any more. */
function useRelease(review: string, item: string | null, reviewer: string | null): void {
  const leave = useEffectEvent(() => item !== null && release(review, item, reviewer));
  useEffect(() => {
    const onHide = () => void leave();
    window.addEventListener('pagehide', onHide);
    return () => {
      window.removeEventListener('pagehide', onHide);
      void leave();
    };
  }, []);
}

interface NothingProps {
  review: Review;
  mine: string;
  onAgain: () => void;
  onAnswers: () => void;
}

function Nothing({ review, mine, onAgain, onAnswers }: NothingProps): ReactNode {
  const { progress } = review;
  const worked = progress.reviewers.find(({ reviewer }) => reviewer === mine);
  const isDone = progress.answers >= progress.wanted;
  return (
    <div className="min-h-0 grow overflow-y-auto">
      <Empty title={isDone ? 'All is answered' : 'Nothing is left for you'} icon={<CircleCheckBig />}>
        <p>
          {isDone ? 'Every item has as many answers as were wanted.' : 'What is left is for others: you have answered or skipped the rest, or somebody else has it before them.'}
          {worked && ` You answered ${worked.answered}${worked.skipped > 0 ? ` and skipped ${worked.skipped}` : ''}.`}
        </p>
        <div className="flex flex-wrap justify-center gap-2 pt-4">
          <Button look="main" onClick={onAnswers}>See the answers</Button>
          {!isDone && <Button onClick={onAgain}>Look again</Button>}
        </div>
      </Empty>
    </div>
  );
}
