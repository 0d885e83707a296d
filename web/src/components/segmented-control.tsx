/** A choice of few options, all visible. */
import type { ReactNode } from 'react';
import { cn } from '@/lib/cn';

interface Props<T extends string> {
  label: string;
  options: Readonly<Record<T, string>>;
  value: T;
  onChange: (value: T) => void;
}

export function SegmentedControl<T extends string>({ label, options, value, onChange }: Props<T>): ReactNode {
  return (
    <div role="group" aria-label={label} className="flex w-fit rounded-lg border bg-surface p-0.5">
      {(Object.keys(options) as T[]).map((one) => (
        <button
          key={one}
          type="button"
          aria-pressed={value === one}
          onClick={() => onChange(one)}
          className={cn(
            'h-6.5 rounded-md px-2.5 text-[13px]',
            value === one ? 'bg-accent-soft font-medium text-accent' : 'text-muted hover:text-ink',
          )}
        >
          {options[one]}
        </button>
      ))}
    </div>
  );
}
