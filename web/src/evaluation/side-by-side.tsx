/** What was expected at the left, what came at the right; of a script turn by turn, with the checks of each. */
import { Check, X } from 'lucide-react';
import { useMemo, type ReactNode } from 'react';
import type { Evaluation } from '@/evaluations/queries';
import { isObject } from '@/components/forms/json-schema';
import { classes } from '@/lib/class-names';
import { prose } from '@/lib/safe-text';
import { textDiff } from '@/lib/diff';
import { JsonBox } from '@/components/json-view';
import { Section } from '@/components/collapsible';
import { lasted } from '@/trace/time';
import type { Result, Turn } from './queries';
import { checksOf, type Check as Checked } from './sides';
import { Talk, ValueView } from './talk';

interface Props {
  evaluation: Evaluation;
  result: Result;
  isScript: boolean;
}

export function SideBySide({ evaluation, result, isScript }: Props): ReactNode {
  const hasExpected = Object.hasOwn(result, 'expected');
  const aboutTools = evaluation.evaluators.some(({ key }) => key.startsWith('tool_'));
  if (isScript) return <Script result={result} />;
  return (
    <>
      <div className="grid items-start gap-3 @3xl:grid-cols-2">
        <Pane title="Expected">{hasExpected ? <ValueView value={result.expected} label="What was expected" namesAreCalls={aboutTools} /> : <p className="text-faint">The row says nothing of what is expected.</p>}</Pane>
        <Pane title="Answered"><Answer result={result} /></Pane>
      </div>
      {typeof result.expected === 'string' && result.text && result.text !== result.expected && (
        <Section title="Differences, word by word"><Words from={result.expected} to={result.text} /></Section>
      )}
    </>
  );
}

function Pane({ title, children }: { title: string; children: ReactNode }): ReactNode {
  return (
    <section aria-label={title} className="flex min-w-0 flex-col">
      <h3 className="mb-1 text-[13px] font-medium text-muted">{title}</h3>
      <div className="max-h-[70dvh] min-h-16 overflow-y-auto rounded-xl border bg-surface p-3">{children}</div>
    </section>
  );
}

function Answer({ result }: { result: Pick<Result, 'messages' | 'value' | 'text' | 'status'> }): ReactNode {
  if (result.messages.length > 0) return <Talk messages={result.messages} label="What was answered" />;
  if (Object.hasOwn(result, 'value')) return <ValueView value={result.value} label="What was answered" />;
  return <p className="text-faint">{result.text || (result.status === 'failed' ? 'There is no answer.' : 'Nothing was said.')}</p>;
}

function Script({ result }: { result: Result }): ReactNode {
  const checks = useMemo(() => checksOf(result), [result]);
  return (
    <section aria-label="Turns" className="flex min-w-0 flex-col gap-3">
      {result.turns.map((turn, place) => (
        // oxlint-disable-next-line react/no-array-index-key -- turns have no name but their place
        <TurnPart key={place} turn={turn} place={place} checks={checks[place] ?? []} />
      ))}
    </section>
  );
}

function TurnPart({ turn, place, checks }: { turn: Turn; place: number; checks: readonly Checked[] }): ReactNode {
  const said = useMemo(() => [...(turn.user ? [turn.user] : []), ...(turn.messages ?? [])], [turn]);
  const failed = checks.filter(({ passed }) => !passed).length;
  return (
    <section aria-label={`Turn ${place + 1}`} className="min-w-0 rounded-xl border bg-surface">
      <h3 className="flex flex-wrap items-center gap-2 border-b px-3 py-1.5 text-[13px] font-medium">
        Turn {place + 1}
        {checks.length > 0 && <span className={failed ? 'text-bad' : 'text-good'}>{failed ? `${failed} of ${checks.length} checks failed` : 'all checks passed'}</span>}
        {turn.reached === false && <span className="text-warn">not reached</span>}
        <span className="grow" />
        {typeof turn.latency_seconds === 'number' && turn.reached !== false && <span className="font-normal text-muted tabular-nums">{lasted(turn.latency_seconds * 1000)}</span>}
      </h3>
      <div className="grid items-start gap-3 p-3 @3xl:grid-cols-[minmax(0,2fr)_minmax(0,3fr)]">
        <div className="min-w-0">
          <h4 className="mb-1 text-xs text-muted">Expected</h4>
          <Expectations expect={turn.expect} checks={checks} />
        </div>
        <div className="min-w-0">
          <h4 className="mb-1 text-xs text-muted">Said</h4>
          {said.length > 0 ? <Talk messages={said} label={`What was said in turn ${place + 1}`} /> : <p className="text-faint">Nothing was said.</p>}
        </div>
      </div>
    </section>
  );
}

/** Each check with what it wanted, and why it failed. */
function Expectations({ expect, checks }: { expect: unknown; checks: readonly Checked[] }): ReactNode {
  const wanted = isObject(expect) ? expect : {};
  if (checks.length === 0) return Object.keys(wanted).length > 0 ? <JsonBox value={wanted} /> : <p className="text-faint">Nothing in particular.</p>;
  return (
    <ul className="flex flex-col gap-2">
      {checks.map(({ name, passed, reason }) => (
        <li key={name} className="flex min-w-0 items-start gap-2">
          <span role="img" aria-label={passed ? 'passed' : 'failed'} className={classes('mt-0.5 shrink-0 [&>svg]:size-4', passed ? 'text-good' : 'text-bad')}>{passed ? <Check /> : <X />}</span>
          <span className="min-w-0">
            <span className="text-[13px] font-medium">{name}</span>{' '}
            {Object.hasOwn(wanted, name) && <span className="font-mono text-xs wrap-anywhere text-muted">{prose(JSON.stringify(wanted[name]) ?? '').slice(0, 500)}</span>}
            {reason && <span dir="auto" className="block text-[13px] wrap-anywhere text-bad">{prose(reason)}</span>}
          </span>
        </li>
      ))}
    </ul>
  );
}

/** What must be taken away and put in to get from what was expected to what came. */
function Words({ from, to }: { from: string; to: string }): ReactNode {
  const pieces = useMemo(() => textDiff(from, to), [from, to]);
  return (
    <p dir="auto" className="rounded-xl border bg-surface p-3 wrap-anywhere whitespace-pre-wrap">
      {pieces.map(({ text, change }, place) => {
        const Tag = change === 'added' ? 'ins' : change === 'removed' ? 'del' : 'span';
        // oxlint-disable-next-line react/no-array-index-key -- a diff is drawn once, in order
        return <Tag key={place} className={LOOKS[change]}>{prose(text)}</Tag>;
      })}
    </p>
  );
}

const LOOKS = { same: '', added: 'rounded-sm bg-good-soft text-good no-underline', removed: 'rounded-sm bg-bad-soft text-bad line-through' };
