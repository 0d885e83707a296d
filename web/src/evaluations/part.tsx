/** A part of the form of a new evaluation, and small things in it. */
import type { ReactNode } from 'react';
import type { Fault } from '@/forms/values';

export const FormPart = ({ title, hint, at, children }: { title: string; hint?: string; /** The pointer that it is about. */ at?: string; children: ReactNode }): ReactNode => (
  <section aria-label={title} data-at={at} className="min-w-0 border-t py-4">
    <h3 className="font-semibold">{title}</h3>
    {hint && <p className="mb-2 text-[13px] text-muted">{hint}</p>}
    {children}
  </section>
);

/** What the server said about this place. */
export const Faults = ({ faults }: { faults: readonly Fault[] }): ReactNode =>
  faults.map(({ path, message }) => (
    <p key={`${path} ${message}`} role="alert" className="mt-1 text-xs wrap-anywhere text-bad">{message}</p>
  ));
