/** How far it is, how fast, how long it may still take; and why it failed, when it did. */
import type { ReactNode } from 'react';
import type { Evaluation } from '@/evaluations/queries';
import { ProgressBar } from '@/evaluations/state-badge';
import { isOpen, left, pace } from '@/evaluations/words';
import { Problem } from '@/components/status';
import type { Progress } from './live';

export function ProgressPart({ evaluation, progress }: { evaluation: Evaluation; progress: Progress | null }): ReactNode {
  const { state, done, failed, total, reason } = evaluation;
  if (!isOpen(state)) return reason && <div className="px-4 pt-3 sm:px-6"><Problem error={reason.message} /></div>;
  const facts = [
    `${(done + failed).toLocaleString('en')} of ${total.toLocaleString('en')} cells`,
    failed > 0 && `${failed.toLocaleString('en')} failed`,
    progress?.rate && pace(progress.rate),
    progress?.eta_seconds !== null && progress?.eta_seconds !== undefined && `${left(progress.eta_seconds)} left`,
  ].filter(Boolean);
  return (
    <section aria-label="Progress" className="flex flex-col gap-1.5 px-4 pt-3 sm:px-6">
      <ProgressBar state={state} done={done} failed={failed} total={total} />
      <p role="status" className="text-[13px] text-muted tabular-nums">{state === 'queued' ? 'Waiting to begin' : facts.join(' · ')}</p>
    </section>
  );
}
