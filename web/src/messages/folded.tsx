/** Something that most who read do not need: a line that opens it. What is inside is rendered only when it is open. */
import { ChevronRight } from 'lucide-react';
import { useId, useState, type ReactNode } from 'react';
import { classes } from '@/lib/class-names';

export function Folded({ label, className, children }: { label: ReactNode; className: string; children: ReactNode }): ReactNode {
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
        <ChevronRight aria-hidden className={classes('size-3.5 transition-transform', open && 'rotate-90')} />
        {label}
      </button>
      <div id={id} className={classes('mt-1', className, !open && 'hidden')}>{open && children}</div>
    </div>
  );
}
