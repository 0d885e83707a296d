/** /reviews/:id: the queue of one review; and what was said so far, with how much people agree. */
import { useQuery } from '@tanstack/react-query';
import { useState, type ReactNode } from 'react';
import { useSearchParams } from 'wouter';
import { session } from '@/app/auth';
import { useTitle } from '@/lib/hooks';
import { Empty, Problem, Spinner } from '@/components/status';
import { Button } from '@/components/button';
import { AgreementPart } from './agreement-part';
import { AnswersPart } from './answers-part';
import { Header } from './header';
import { review as reviewOf } from './queries';
import { Queue } from './queue';
import { keepReviewer, readReviewer } from './reviewer';
import { WhoForm } from './who-form';

export default function ReviewPage({ id }: { id: string }): ReactNode {
  const { data: review, error, refetch } = useQuery(reviewOf(id));
  useTitle(review?.name ?? 'Review');
  const [params, setParams] = useSearchParams();
  const tab = params.get('tab') === 'answers' ? 'answers' : 'queue';
  const me = useQuery(session());
  const [name, setName] = useState(readReviewer);
  if (error && !review) return <div className="p-4"><Problem error={error}><Button size="small" onClick={() => void refetch()}>Try again</Button></Problem></div>;
  if (!review || me.isPending) return <div className="p-6"><Spinner /></div>;
  const keyed = Boolean(me.data?.key);
  const known = (given: string) => {
    keepReviewer(given);
    setName(given);
  };
  return (
    <div className="flex h-full flex-col">
      <Header review={review} tab={tab} onTab={(next) => setParams(next === 'answers' ? { tab: next } : {})} {...(keyed || !name ? {} : { name, onName: () => setName(null) })} />
      {tab === 'answers' && (
        <div className="min-h-0 grow overflow-y-auto px-4 py-4 sm:px-6">
          <div className="mx-auto flex max-w-5xl flex-col gap-6">
            <AgreementPart review={review} />
            <AnswersPart review={review} />
          </div>
        </div>
      )}
      {tab === 'queue' && review.state === 'closed' && <Empty title="This review is closed">Nobody is asked any more. What was said is under Answers.</Empty>}
      {tab === 'queue' && review.state === 'open' && (keyed || name ? <Queue key={name} review={review} reviewer={keyed ? null : name} onAnswers={() => setParams({ tab: 'answers' })} /> : <WhoForm onName={known} />)}
    </div>
  );
}
