/** How an evaluation goes, or how it ended; while it runs, how far it is. */
import type { ReactNode } from 'react';
import { Badge } from '@/components/status';
import { STATES, isOpen, type State } from './words';

export const StateBadge = ({ state, reason }: { state: State; reason: { message: string } | null }): ReactNode => (
  <Badge tone={STATES[state].tone} {...(reason ? { title: reason.message } : {})}>{STATES[state].word}</Badge>
);

interface BarProps {
  state: State;
  done: number;
  failed: number;
  total: number;
}

/** What is done, and what of it failed. */
export function ProgressBar({ state, done, failed, total }: BarProps): ReactNode {
  const share = (number: number): number => (total > 0 ? (number / total) * 100 : 0);
  return (
    <span
      role="progressbar"
      aria-label="Cells that have an answer"
      aria-valuemin={0}
      aria-valuemax={total}
      aria-valuenow={done + failed}
      className="block h-1.5 w-full overflow-hidden rounded-full bg-sunken"
    >
      <svg aria-hidden viewBox="0 0 100 6" preserveAspectRatio="none" className="block size-full">
        <rect x={0} y={0} width={share(done)} height={6} className={isOpen(state) ? 'fill-accent' : 'fill-good'} />
        <rect x={share(done)} y={0} width={share(failed)} height={6} className="fill-bad" />
      </svg>
    </span>
  );
}
