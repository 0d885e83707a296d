/** Collapsible sections. The content is rendered only while open. */
import { ChevronRight } from 'lucide-react';
import { useId, useState, type ReactNode } from 'react';
import { cn } from '@/lib/cn';

interface Props {
  title: string;
  /** Number of entries; the section is hidden if 0. */
  count?: number;
  open?: boolean;
  trailing?: ReactNode;
  children: ReactNode;
}

export function CollapsibleSection({ title, count, open = false, trailing, children }: Props): ReactNode {
  const [opened, setOpened] = useState(open);
  const id = useId();
  if (count === 0) return null;
  return (
    <section aria-label={title} className="min-w-0 border-t py-1">
      <div className="flex min-h-8 items-center gap-1">
        <button
          type="button"
          aria-expanded={opened}
          aria-controls={id}
          onClick={() => setOpened(!opened)}
          className="flex grow items-center gap-1.5 rounded-md py-1 text-left font-medium hover:text-accent"
        >
          <ChevronRight aria-hidden className={cn('size-3.5 text-faint transition-transform', opened && 'rotate-90')} />
          {title}
          {count !== undefined && (
            <span className="text-xs font-normal text-faint tabular-nums">{count.toLocaleString('en')}</span>
          )}
        </button>
        {trailing}
      </div>
      <div id={id} className={cn('min-w-0 pb-2', !opened && 'hidden')}>
        {opened && children}
      </div>
    </section>
  );
}

/** A line that expands to secondary content. */
export function Disclosure({
  label,
  className,
  children,
}: {
  label: ReactNode;
  className: string;
  children: ReactNode;
}): ReactNode {
  const [open, setOpen] = useState(false);
  const id = useId();
  return (
    <div className="text-muted">
      <button
        type="button"
        aria-expanded={open}
        aria-controls={id}
        onClick={() => setOpen(!open)}
        className="flex items-center gap-1 rounded-md py-0.5 pr-2 text-[13px] hover:text-ink"
      >
        <ChevronRight aria-hidden className={cn('size-3.5 transition-transform', open && 'rotate-90')} />
        {label}
      </button>
      <div id={id} className={cn('mt-1', className, !open && 'hidden')}>
        {open && children}
      </div>
    </div>
  );
}
