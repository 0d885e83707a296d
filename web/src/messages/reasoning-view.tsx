/** What a model thought before it spoke: folded, for most who read want the answer. */
import { ChevronRight } from 'lucide-react';
import { useEffect, useId, useRef, useState, type ReactNode } from 'react';
import { classes } from '@/lib/classes';
import { Markdown } from './markdown/markdown';
import { duration } from './words';

export function ReasoningView({ text, streaming }: { text: string; streaming: boolean }): ReactNode {
  const [open, setOpen] = useState(false);
  const seconds = useSeconds(streaming);
  const id = useId();
  if (!text.trim() && !streaming) return null;
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
        {streaming ? <span className="animate-pulse">Thinking…</span> : seconds === undefined ? 'Thoughts' : `Thought for ${duration(seconds)}`}
      </button>
      <div id={id} className={classes('mt-1 ml-1.5 border-l-2 pl-3 text-[13px]', !open && 'hidden')}>
        {open && <Markdown text={text} streaming={streaming} />}
      </div>
    </div>
  );
}

/** How long it streamed, if this page saw it. */
function useSeconds(streaming: boolean): number | undefined {
  const began = useRef<number>(undefined);
  const [seconds, setSeconds] = useState<number>();
  useEffect(() => {
    if (streaming) began.current ??= performance.now();
    else if (began.current !== undefined) setSeconds((performance.now() - began.current) / 1000);
  }, [streaming]);
  return seconds;
}
