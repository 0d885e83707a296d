/** How an answer differs from the base column's: words in its text, then its tool calls. */
import { useMemo, type ReactNode } from 'react';
import type { Run } from '@/api/types';
import { formatValue } from '@/components/forms/values';
import { classes } from '@/lib/class-names';
import { prose } from '@/lib/safe-text';
import { type CallChange, type Change, callsDiff, textDiff } from '@/lib/diff';
import { callsOf, textOf } from '@/components/messages/run-output';

export function DiffView({ base, run }: { base: Run; run: Run }): ReactNode {
  const pieces = useMemo(() => textDiff(textOf(base), textOf(run)), [base, run]);
  const calls = useMemo(() => callsDiff(callsOf(base), callsOf(run)), [base, run]);
  const isSame = pieces.length + calls.length > 0 && pieces.every(({ change }) => change === 'same') && calls.every(({ change }) => change === 'same');
  return (
    <div className="flex flex-col gap-2">
      {isSame && <p className="text-xs text-faint">The same as the base.</p>}
      <p dir="auto" className="whitespace-pre-wrap">
        {pieces.map(({ text, change }, place) => {
          const Tag = change === 'added' ? 'ins' : change === 'removed' ? 'del' : 'span';
          return (
            // oxlint-disable-next-line react/no-array-index-key -- a diff is drawn once, in order
            <Tag key={place} className={LOOKS[change]}>
              {prose(text)}
            </Tag>
          );
        })}
      </p>
      {calls.map((change, place) => (
        // oxlint-disable-next-line react/no-array-index-key -- the same call may come twice
        <CallView key={place} change={change} />
      ))}
    </div>
  );
}

const LOOKS = {
  same: '',
  added: 'rounded-sm bg-good-soft text-good no-underline',
  removed: 'rounded-sm bg-bad-soft text-bad line-through',
};
const EDGES = { same: 'border-line', added: 'border-good', removed: 'border-bad', changed: 'border-warn' };
const WORDS = { same: 'same call', added: 'only here', removed: 'only in the base', changed: 'other arguments' };

function CallView({ change }: { change: CallChange }): ReactNode {
  return (
    <div className={classes('border-l-2 pl-2 font-mono text-[12px]/5', EDGES[change.change])}>
      <p>
        <span className={classes('font-semibold', change.change === 'removed' && 'line-through')}>{prose(change.call.name)}</span>{' '}
        <span className="font-sans text-xs text-muted">{WORDS[change.change]}</span>
      </p>
      {change.change === 'changed' ? (
        change.changes.slice(0, 50).map((one) => <Argument key={one.path} change={one} />)
      ) : (
        <p className="text-muted">{prose(formatValue(change.call.arguments))}</p>
      )}
    </div>
  );
}

function Argument({ change: { path, from, to } }: { change: Change }): ReactNode {
  return (
    <p>
      {path && <span className="text-muted">{prose(path.slice(1))}: </span>}
      {from !== undefined && <del className={LOOKS.removed}>{prose(formatValue(from))}</del>} {to !== undefined && <ins className={LOOKS.added}>{prose(formatValue(to))}</ins>}
    </p>
  );
}
