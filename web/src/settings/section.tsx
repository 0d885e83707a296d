/** One part of the settings. */
import type { ReactNode } from 'react';

export const Section = ({ title, aside, children }: { title: string; aside?: ReactNode; children: ReactNode }): ReactNode => (
  <section className="flex flex-col gap-4">
    <header className="flex min-h-9 items-end justify-between border-b pb-1">
      <h2 className="text-base font-semibold">{title}</h2>
      {aside}
    </header>
    {children}
  </section>
);
