/** Says that an old revision is shown, and leads back; or makes it the newest again. */
import type { ReactNode } from 'react';
import { Link, useLocation } from 'wouter';
import type { TestSet } from '@/api/types';
import { Button } from '@/components/button';
import { tellError } from '@/components/toast';
import { useRestore } from './restoring';

export function OldBar({ set, number }: { set: TestSet; number: number }): ReactNode {
  const [, navigate] = useLocation();
  const restore = useRestore(set);
  return (
    <div role="status" className="flex shrink-0 flex-wrap items-center gap-2 border-b bg-warn-soft px-4 py-1.5 text-[13px] text-warn">
      <span className="min-w-0 grow">This is revision {number}; the newest is {set.head}.</span>
      {!set.archived && <Button size="small" onClick={() => void restore(number).then((done) => done && navigate(`/testsets/${set.id}`)).catch(tellError)}>Restore</Button>}
      <Link href={`/testsets/${set.id}`} className="rounded px-1 font-medium underline underline-offset-2">To the newest</Link>
    </div>
  );
}
