/** Form fields on native elements. */
import type { ComponentProps, ReactNode } from 'react';
import { cn } from '@/lib/cn';
import type { FieldError } from './forms/values';

const FIELD =
  'w-full rounded-lg border bg-surface px-2.5 text-ink transition-colors ' +
  'hover:border-strong-line disabled:opacity-50 aria-invalid:border-bad';

export const TextField = ({ className, ...rest }: ComponentProps<'input'>): ReactNode => (
  <input className={cn(FIELD, 'h-8', className)} {...rest} />
);

export const TextArea = ({ className, ...rest }: ComponentProps<'textarea'>): ReactNode => (
  <textarea className={cn(FIELD, 'field-sizing-content max-h-96 min-h-16 resize-y py-1.5', className)} {...rest} />
);

export const Select = ({ className, ...rest }: ComponentProps<'select'>): ReactNode => (
  <select className={cn(FIELD, 'h-8 cursor-pointer', className)} {...rest} />
);

export function Switch({
  checked,
  onChange,
  label,
}: {
  checked: boolean;
  onChange: (checked: boolean) => void;
  label: string;
}): ReactNode {
  return (
    <button
      type="button"
      role="switch"
      aria-checked={checked}
      aria-label={label}
      onClick={() => onChange(!checked)}
      className={cn(
        'relative h-5 w-9 shrink-0 rounded-full transition-colors',
        checked ? 'bg-accent' : 'bg-strong-line',
      )}
    >
      <span
        className={cn(
          'absolute top-0.5 size-4 rounded-full bg-white transition-all',
          checked ? 'left-4.5' : 'left-0.5',
        )}
      />
    </button>
  );
}

/** A field with its label above. */
export const LabeledField = ({
  label,
  hint,
  children,
}: {
  label: string;
  hint?: string;
  children: ReactNode;
}): ReactNode => (
  // oxlint-disable-next-line jsx-a11y/label-has-associated-control -- the field is its child
  <label className="flex flex-col gap-1">
    <span className="font-medium">
      {label} {hint && <span className="font-normal text-faint">{hint}</span>}
    </span>
    {children}
  </label>
);

export const FormSection = ({
  title,
  hint,
  path,
  children,
}: {
  title: string;
  hint?: string;
  /** JSON pointer of the value that this section edits. */ path?: string;
  children: ReactNode;
}): ReactNode => (
  <section aria-label={title} data-at={path} className="min-w-0 border-t py-4">
    <h3 className="font-semibold">{title}</h3>
    {hint && <p className="mb-2 text-[13px] text-muted">{hint}</p>}
    {children}
  </section>
);

/** Errors of the server for this field. */
export const FieldErrors = ({ errors }: { errors: readonly FieldError[] }): ReactNode =>
  errors.map(({ path, message }) => (
    <p key={`${path} ${message}`} role="alert" className="mt-1 text-xs wrap-anywhere text-bad">
      {message}
    </p>
  ));

interface Props<T extends string> {
  label: string;
  options: Readonly<Record<T, string>>;
  value: T;
  onChange: (value: T) => void;
}

/** A choice of few options, all visible. */
export function SegmentedControl<T extends string>({ label, options, value, onChange }: Props<T>): ReactNode {
  return (
    <div role="group" aria-label={label} className="flex w-fit rounded-lg border bg-surface p-0.5">
      {(Object.keys(options) as T[]).map((option) => (
        <button
          key={option}
          type="button"
          aria-pressed={value === option}
          onClick={() => onChange(option)}
          className={cn(
            'h-6.5 rounded-md px-2.5 text-[13px]',
            value === option ? 'bg-accent-soft font-medium text-accent' : 'text-muted hover:text-ink',
          )}
        >
          {options[option]}
        </button>
      ))}
    </div>
  );
}
