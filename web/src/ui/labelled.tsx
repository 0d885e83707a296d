/** A field with its name above it. */
import type { ReactNode } from 'react';

export const Labelled = ({ label, hint, children }: { label: string; hint?: string; children: ReactNode }): ReactNode => (
  // oxlint-disable-next-line jsx-a11y/label-has-associated-control -- the field is its child
  <label className="flex flex-col gap-1">
    <span className="font-medium">
      {label} {hint && <span className="font-normal text-faint">{hint}</span>}
    </span>
    {children}
  </label>
);
