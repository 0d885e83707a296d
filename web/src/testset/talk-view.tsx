/** A conversation to read: who said what, and what changed of it. */
import type { ReactNode } from 'react';
import { classes } from '@/lib/class-names';
import { LongText } from '@/components/text';
import { exact, prose } from '@/lib/safe-text';
import { pluralize } from '@/lib/format';
import { Badge } from '@/components/status';
import type { Said } from './said';

export type Op = 'added' | 'removed' | 'changed';
const EDGES: Readonly<Record<Op, string>> = { added: 'border-good', removed: 'border-bad opacity-70', changed: 'border-warn' };
const TONES = { added: 'good', removed: 'bad', changed: 'warn' } as const;

export const TalkView = ({ said }: { said: readonly Said[] }): ReactNode => (
  <div className="flex flex-col gap-2">
    {said.map((one, place) => (
      // oxlint-disable-next-line react/no-array-index-key -- messages have no other name
      <TurnView key={place} said={one} />
    ))}
  </div>
);

/** One message; `text` in place of its own, where that is drawn otherwise. */
export function TurnView({ said, op, text }: { said: Said; op?: Op; text?: ReactNode }): ReactNode {
  return (
    <div className={classes('rounded-lg px-2.5 py-1.5', said.role === 'user' ? 'bg-accent-soft' : 'bg-sunken', op && `border-l-2 ${EDGES[op]}`)}>
      <p className="flex items-center gap-2 text-[11px]/5 text-muted">{prose(said.role.slice(0, 40))}{op && <Badge tone={TONES[op]}>{op}</Badge>}</p>
      <div dir="auto" className="wrap-anywhere whitespace-pre-wrap">{text ?? <LongText text={said.text} />}</div>
      {said.calls.map((call, at) => (
        // oxlint-disable-next-line react/no-array-index-key -- the same call may come twice
        <p key={at} className="font-mono text-[12px]/5 text-muted wrap-anywhere">{exact(call)}</p>
      ))}
      {said.attachments > 0 && <p className="text-xs text-muted">{pluralize(said.attachments, 'attachment')}</p>}
    </div>
  );
}
