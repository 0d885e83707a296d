/** Progress of a review: given and wanted answers. */
import type { ReactNode } from 'react';
import { cn } from '@/lib/cn';

export function ReviewProgressBar({
  answers,
  wanted,
  className,
}: {
  answers: number;
  wanted: number;
  className?: string;
}): ReactNode {
  const share = wanted > 0 ? Math.min(100, (answers / wanted) * 100) : 0;
  return (
    <span
      role="progressbar"
      aria-label="Answers that are there"
      aria-valuemin={0}
      aria-valuemax={wanted}
      aria-valuenow={answers}
      className={cn('block h-1.5 overflow-hidden rounded-full bg-sunken', className)}
    >
      <svg aria-hidden viewBox="0 0 100 6" preserveAspectRatio="none" className="block size-full">
        <rect x={0} y={0} width={share} height={6} className={share < 100 ? 'fill-accent' : 'fill-good'} />
      </svg>
    </span>
  );
}
