/** What an evaluator thought of an answer, as a badge; and the same with its reason and details. */
import { Check, CircleSlash, TriangleAlert, X } from 'lucide-react';
import type { ReactNode } from 'react';
import { classes } from '@/lib/class-names';
import { JsonView } from '@/components/json-view';
import { LongText } from '@/components/text';
import { prose } from '@/lib/safe-text';
import { Section } from '@/components/collapsible';
import type { ScoreView } from './queries';
import { score as told } from './words';

const TONES = { passed: 'bg-good-soft text-good', failed: 'bg-bad-soft text-bad', plain: 'bg-sunken text-ink', skipped: 'bg-sunken text-faint', error: 'bg-warn-soft text-warn' };
const ICONS = { passed: <Check aria-hidden />, failed: <X aria-hidden />, plain: null, skipped: <CircleSlash aria-hidden />, error: <TriangleAlert aria-hidden /> };
const WORDS = { passed: 'passed', failed: 'did not pass', plain: 'scored', skipped: 'skipped', error: 'could not score' };

type Kind = keyof typeof TONES;

export function kindOf({ status, passed }: Pick<ScoreView, 'status' | 'passed'>): Kind {
  if (status !== 'scored') return status;
  if (passed === null || passed === undefined) return 'plain';
  return passed ? 'passed' : 'failed';
}

/** The number or the word of a score; a score that only repeats whether it passed says nothing. */
function figure({ status, passed, score, label }: ScoreView): string {
  if (status !== 'scored') return '';
  const number = score === null || score === undefined || (typeof passed === 'boolean' && score === Number(passed)) ? '' : told(score);
  return [label ?? '', number].filter(Boolean).join(' ');
}

/** `name`: shown beside it, else only heard and hovered. */
export function ScoreBadge({ score, name = false }: { score: ScoreView; name?: boolean }): ReactNode {
  const kind = kindOf(score);
  const text = figure(score);
  const title = [`${score.evaluator}: ${WORDS[kind]}`, text, score.reason].filter(Boolean).join(', ');
  return (
    <span title={title} className={classes('inline-flex h-5 max-w-full min-w-0 items-center gap-1 rounded-full px-1.5 text-xs font-medium tabular-nums [&>svg]:size-3.5 [&>svg]:shrink-0', TONES[kind])}>
      {ICONS[kind]}
      {name ? <span className="truncate" dir="auto">{prose(score.evaluator)}</span> : <span className="sr-only">{prose(score.evaluator)}: </span>}
      <span className="sr-only">{WORDS[kind]}</span>
      {text && <span className="max-w-32 truncate" dir="auto">{prose(text)}</span>}
    </span>
  );
}

/** Details that are longer are folded. */
const FEW = 4;

/** All that it said. What it says of turns is shown with them, so it is folded here. */
export function ScoreCard({ score }: { score: ScoreView }): ReactNode {
  const details = score.details ?? {};
  const count = Object.keys(details).length;
  return (
    <section aria-label={`Score ${score.evaluator}`} className="min-w-0 rounded-xl border bg-surface px-3 py-2">
      <div className="flex min-w-0 flex-wrap items-center gap-x-2 gap-y-1">
        <bdi className="min-w-0 font-medium wrap-anywhere">{prose(score.evaluator)}</bdi>
        <ScoreBadge score={score} />
        <span className="text-[13px] text-muted">{WORDS[kindOf(score)]}</span>
      </div>
      {score.reason && <p dir="auto" className="mt-1 text-[13px] wrap-anywhere whitespace-pre-wrap text-muted"><LongText text={score.reason} /></p>}
      {count > 0 && <div className="mt-1"><Section title="Details" open={count <= FEW && !Object.hasOwn(details, 'turns')}><JsonView value={details} open={2} /></Section></div>}
    </section>
  );
}
