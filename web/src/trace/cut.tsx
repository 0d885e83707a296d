/** A line that says that not all is shown, and gets the rest. */
import type { ReactNode } from 'react';
import { Button } from '@/components/button';

export function Cut({ children, busy, share, onAll }: { children: ReactNode; busy: boolean; share?: number; onAll: () => void }): ReactNode {
  return (
    <div className="mb-3 flex flex-wrap items-center gap-x-3 gap-y-1 rounded-lg bg-warn-soft px-3 py-1.5 text-[13px] text-warn">
      <span className="grow">{children}</span>
      <Button size="small" disabled={busy} onClick={onAll}>{busy ? (share === undefined ? 'Loading…' : `Loading, ${Math.round(share * 100)} %`) : 'Show all'}</Button>
    </div>
  );
}
