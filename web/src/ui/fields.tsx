/** Fields of a form, as plain as the platform's own. */
import type { ComponentProps, ReactNode } from 'react';
import { classes } from '@/lib/class-names';

const FIELD =
  'w-full rounded-lg border bg-surface px-2.5 text-ink transition-colors hover:border-strong-line disabled:opacity-50 aria-invalid:border-bad';

export const TextField = ({ className, ...rest }: ComponentProps<'input'>): ReactNode => (
  <input className={classes(FIELD, 'h-8', className)} {...rest} />
);

export const TextArea = ({ className, ...rest }: ComponentProps<'textarea'>): ReactNode => (
  <textarea className={classes(FIELD, 'field-sizing-content max-h-96 min-h-16 resize-y py-1.5', className)} {...rest} />
);

export const Select = ({ className, ...rest }: ComponentProps<'select'>): ReactNode => (
  <select className={classes(FIELD, 'h-8 cursor-pointer', className)} {...rest} />
);

export function Switch({ checked, onChange, label }: { checked: boolean; onChange: (checked: boolean) => void; label: string }): ReactNode {
  return (
    <button
      type="button"
      role="switch"
      aria-checked={checked}
      aria-label={label}
      onClick={() => onChange(!checked)}
      className={classes('relative h-5 w-9 shrink-0 rounded-full transition-colors', checked ? 'bg-accent' : 'bg-strong-line')}
    >
      <span className={classes('absolute top-0.5 size-4 rounded-full bg-white transition-all', checked ? 'left-4.5' : 'left-0.5')} />
    </button>
  );
}
