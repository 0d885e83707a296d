/** Progress bar of a review: answers so far out of the target. */
import type { ReactNode } from 'react';
import { cn } from '@/lib/cn';

export function ReviewProgressBar({
  answers,
  target,
  className,
}: {
  answers: number;
  target: number;
  className?: string;
}): ReactNode {
  const percent = target > 0 ? Math.min(100, (answers / target) * 100) : 0;
  return (
    <span
      role="progressbar"
      aria-label="Answers given"
      aria-valuemin={0}
      aria-valuemax={target}
      aria-valuenow={answers}
      className={cn('block h-1.5 overflow-hidden rounded-full bg-sunken', className)}
    >
      <svg aria-hidden viewBox="0 0 100 6" preserveAspectRatio="none" className="block size-full">
        <rect x={0} y={0} width={percent} height={6} className={percent < 100 ? 'fill-accent' : 'fill-good'} />
      </svg>
    </span>
  );
}
