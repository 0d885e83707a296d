/** The way back to the tour, where the server gives one. */
import type { ReactNode } from 'react';
import { IDS, tour, useTour } from '@/app/tour/progress';
import { Button } from '@/components/button';
import { Section } from './section';

export function TourSection(): ReactNode {
  const { on, look, done } = useTour();
  if (!on) return null;
  return (
    <Section title="Tour">
      <div className="flex flex-wrap items-center justify-between gap-x-6 gap-y-2">
        <p className="min-w-0 text-[13px] text-muted">
          {done.length} of {IDS.length} steps are done. The list is in the sidebar.
        </p>
        <div className="flex gap-2">
          {done.length > 0 && <Button onClick={() => tour.again()}>Begin again</Button>}
          {look === 'away' ? <Button onClick={() => tour.show('open')}>Show the tour</Button> : <Button onClick={() => tour.show('away')}>Hide the tour</Button>}
        </div>
      </div>
    </Section>
  );
}
