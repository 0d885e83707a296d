/** What a model thought before it spoke: folded, for most who read want the answer. */
import { useEffect, useRef, useState, type ReactNode } from 'react';
import { Folded } from './folded';
import { Markdown } from './markdown/markdown';
import { formatDuration } from '@/lib/format';

export function ReasoningView({ text, streaming }: { text: string; streaming: boolean }): ReactNode {
  const seconds = useSeconds(streaming);
  if (!text.trim() && !streaming) return null;
  const done = seconds === undefined ? 'Thoughts' : `Thought for ${formatDuration(seconds)}`;
  return (
    <Folded label={streaming ? <span className="animate-pulse">Thinking…</span> : done} className="ml-1.5 border-l-2 pl-3 text-[13px]">
      <Markdown text={text} streaming={streaming} />
    </Folded>
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
