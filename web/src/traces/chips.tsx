/** The conditions that hold, one chip each: a click changes it, the cross takes it away. */
import { X } from 'lucide-react';
import type { ReactNode } from 'react';
import { exact, prose } from '@/lib/safe-text';
import { Button } from '@/components/button';
import { Segments } from '@/components/segmented-control';
import type { Asked, Condition } from './asked';
import { ConditionEditor } from './condition-editor';
import { wordsOf } from './condition-words';

interface Props {
  asked: Asked;
  seen: Readonly<Record<string, readonly string[]>>;
  onChange: (asked: Asked) => void;
}

const JOINED = { all: 'All of', any: 'Any of' };

export function Chips({ asked, seen, onChange }: Props): ReactNode {
  const { conditions, any } = asked;
  if (conditions.length === 0) return null;
  const become = (next: readonly Condition[]) => onChange({ ...asked, conditions: next });
  return (
    <div role="group" aria-label="Filters" className="flex flex-wrap items-center gap-1.5 px-4 pb-2.5">
      {conditions.length > 1 && <Segments label="Match" options={JOINED} value={any ? 'any' : 'all'} onChange={(value) => onChange({ ...asked, any: value === 'any' })} />}
      {conditions.map((condition, place) => (
        <Chip
          // oxlint-disable-next-line react/no-array-index-key -- the same condition may be there twice
          key={`${place} ${condition.of} ${condition.name}`}
          condition={condition}
          seen={seen}
          onChange={(next) => become(conditions.with(place, next))}
          onRemove={() => become(conditions.toSpliced(place, 1))}
        />
      ))}
      <Button size="small" look="quiet" onClick={() => become([])}>
        Clear
      </Button>
    </div>
  );
}

interface ChipProps {
  condition: Condition;
  seen: Props['seen'];
  onChange: (condition: Condition) => void;
  onRemove: () => void;
}

function Chip({ condition, seen, onChange, onRemove }: ChipProps): ReactNode {
  const { subject, verb, value } = wordsOf(condition);
  const whole = [subject, verb, value].filter(Boolean).join(' ');
  return (
    <span className="inline-flex h-7 max-w-full min-w-0 items-center rounded-lg bg-accent-soft text-[13px]">
      <ConditionEditor
        condition={condition}
        seen={seen}
        onDone={onChange}
        trigger={
          <button type="button" title={exact(whole)} className="flex h-full min-w-0 items-center gap-1 rounded-l-lg pl-2.5 hover:text-accent">
            <span className="max-w-40 truncate text-muted" dir="auto">{prose(subject)}</span>
            <span className="shrink-0 text-muted">{verb}</span>
            {value && <span className="max-w-60 truncate font-medium" dir="auto">{prose(value)}</span>}
          </button>
        }
      />
      <button type="button" aria-label={`Remove the filter ${prose(whole)}`} onClick={onRemove} className="flex h-full shrink-0 items-center rounded-r-lg px-1.5 text-faint hover:text-ink">
        <X className="size-3.5" />
      </button>
    </span>
  );
}
