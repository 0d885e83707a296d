/** The tour in the sidebar and its short forms. The checklist loads only where there is a tour. */
import { ListChecks } from 'lucide-react';
import { lazy, Suspense, type ReactNode } from 'react';
import { useCommand } from '@/app/commands';
import { IconButton } from '@/components/button';
import { cn } from '@/lib/cn';
import { STEP_IDS, tour, useTour } from './progress';

const Checklist = lazy(() => import('./checklist'));

export function TourPanel(): ReactNode {
  const { on, look } = useTour();
  useCommand(
    on && look === 'away' && { id: 'tour', title: 'Show tour', group: 'General', run: () => tour.show('open') },
  );
  return <Suspense>{on && look !== 'away' && <Checklist />}</Suspense>;
}

/** Progress for the bar on phones. `onOpen` reveals the checklist. */
export function TourPill({ onOpen }: { onOpen: () => void }): ReactNode {
  const { on, look, done } = useTour();
  if (!on || look === 'away') return null;
  return (
    <button
      type="button"
      onClick={() => {
        tour.show('open');
        onOpen();
      }}
      className={cn(
        'flex h-7 items-center gap-1.5 rounded-full bg-accent-soft',
        'px-2.5 text-xs font-medium text-accent tabular-nums',
      )}
    >
      <ListChecks aria-hidden className="size-3.5" />
      Tour, {done.length} of {STEP_IDS.length}
    </button>
  );
}

/** Progress for the rail of icons. */
export function TourIcon({ onOpen }: { onOpen: () => void }): ReactNode {
  const { on, look, done } = useTour();
  if (!on || look === 'away') return null;
  return (
    <IconButton
      label={`Tour, ${done.length} of ${STEP_IDS.length}`}
      onClick={() => {
        tour.show('open');
        onOpen();
      }}
    >
      <ListChecks />
    </IconButton>
  );
}
