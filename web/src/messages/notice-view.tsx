/** What a workflow wants known before its answer is read (data part `notice`): that it rehearses, that a source is old. */
import { Info, TriangleAlert } from 'lucide-react';
import type { ReactNode } from 'react';
import { classes } from '@/lib/class-names';
import { LongText } from './long-text';
import type { Notice } from './notice-shape';

export function NoticeView({ notice: { level, text } }: { notice: Notice }): ReactNode {
  const Icon = level === 'warning' ? TriangleAlert : Info;
  return (
    <div
      role="note"
      className={classes('flex items-start gap-2 rounded-xl px-3 py-2 text-[13px]', level === 'warning' ? 'bg-warn-soft' : 'bg-accent-soft')}
    >
      <Icon aria-label={level === 'warning' ? 'Warning' : 'Notice'} className={classes('mt-0.5 size-4 shrink-0', level === 'warning' ? 'text-warn' : 'text-accent')} />
      <div dir="auto" className="min-w-0 wrap-anywhere whitespace-pre-wrap"><LongText text={text} /></div>
    </div>
  );
}
