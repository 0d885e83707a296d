/** Menu of the time range: presets or custom. */
import { Check, ChevronDown, Clock } from 'lucide-react';
import { Popover } from 'radix-ui';
import { useState, type FormEvent, type ReactNode } from 'react';
import { Button } from '@/components/button';
import { TextField, LabeledField } from '@/components/form-fields';
import { cn } from '@/lib/cn';
import {
  formatLocalTime,
  fromInputValue,
  toInputValue,
  RANGES,
  type TraceQuery,
  type RelativeRange,
} from './trace-query';

const PRESETS = (Object.keys(RANGES) as RelativeRange[]).filter((range) => range !== 'custom');

export function TimeMenu({ query, onChange }: { query: TraceQuery; onChange: (query: TraceQuery) => void }): ReactNode {
  const [open, setOpen] = useState(false);
  const choose = (range: RelativeRange) => {
    setOpen(false);
    onChange({ ...query, range, from: null, to: null });
  };
  return (
    <Popover.Root open={open} onOpenChange={setOpen}>
      <Popover.Trigger asChild>
        <Button aria-label={`Time: ${timeLabel(query)}`}>
          <Clock aria-hidden className="size-4 text-faint" />
          <span className="max-w-64 truncate">{timeLabel(query)}</span>
          <ChevronDown aria-hidden className="size-3.5 text-faint" />
        </Button>
      </Popover.Trigger>
      <Popover.Portal>
        <Popover.Content
          aria-label="Time"
          align="start"
          sideOffset={4}
          collisionPadding={8}
          className="z-50 w-64 rounded-xl border bg-raised p-1 shadow-float"
        >
          {PRESETS.map((range) => (
            <button
              key={range}
              type="button"
              aria-pressed={query.range === range}
              onClick={() => choose(range)}
              className={cn(
                'flex w-full items-center justify-between rounded-lg px-2 py-1.5 hover:bg-sunken',
                query.range === range && 'font-medium',
              )}
            >
              {RANGES[range]}
              {query.range === range && <Check aria-hidden className="size-4 text-accent" />}
            </button>
          ))}
          <CustomRange
            query={query}
            onChange={(next) => {
              setOpen(false);
              onChange(next);
            }}
          />
        </Popover.Content>
      </Popover.Portal>
    </Popover.Root>
  );
}

function CustomRange({ query, onChange }: { query: TraceQuery; onChange: (query: TraceQuery) => void }): ReactNode {
  const [from, setFrom] = useState(toInputValue(query.from));
  const [to, setTo] = useState(toInputValue(query.to));
  const isReversed = from !== '' && to !== '' && from >= to;
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onChange({ ...query, range: 'custom', from: fromInputValue(from), to: fromInputValue(to) });
  };
  return (
    <form onSubmit={submit} className="mt-1 flex flex-col gap-2 border-t p-2 text-[13px]">
      <LabeledField label="From">
        <TextField type="datetime-local" value={from} onChange={(event) => setFrom(event.target.value)} />
      </LabeledField>
      <LabeledField label="To">
        <TextField
          type="datetime-local"
          value={to}
          aria-invalid={isReversed}
          onChange={(event) => setTo(event.target.value)}
        />
      </LabeledField>
      {isReversed && <p className="text-xs text-bad">The end must be after the start.</p>}
      <Button type="submit" size="small" variant="main" disabled={isReversed || (from === '' && to === '')}>
        Apply
      </Button>
    </form>
  );
}

function timeLabel({ range, from, to }: TraceQuery): string {
  if (range !== 'custom') return RANGES[range];
  if (from && to) return `${formatLocalTime(from)} – ${formatLocalTime(to)}`;
  return from ? `Since ${formatLocalTime(from)}` : `Until ${formatLocalTime(to ?? '')}`;
}
