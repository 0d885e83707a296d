/** What a span was given and what it gave: its messages as a chat; else its inputs and outputs as they are. */
import { useCallback, useMemo, type ReactNode } from 'react';
import { CopyButton } from '@/components/button';
import { Section } from '@/components/collapsible';
import { JsonBox } from '@/components/json-view';
import { itemsOf, stepsOf, type Item, StepsView } from '@/components/messages/conversation-steps';
import { LongText } from '@/components/text';
import { formatSize } from '@/lib/format';
import { prose } from '@/lib/safe-text';
import { Cut } from './cut';
import type { Part } from './queries';
import type { Parts } from './whole-parts';

export function SpanContent({ parts, resume }: { parts: Parts; resume: (upto: number) => Promise<void> }): ReactNode {
  const { trace_id: trace, span_id: id, messages_in: given, messages_out: said, inputs, outputs } = parts.span;
  const items = useMemo(() => itemsOf(stepsOf(trace, id, [...(given ?? []), ...(said ?? [])])), [trace, id, given, said]);
  const goOn = useCallback((item: Item) => resume(item.upto), [resume]);
  // A part that is too long even when its texts are cut comes empty.
  const isTalk = items.length > 0 || parts.cut('messages_in') !== undefined || parts.cut('messages_out') !== undefined;
  return (
    <>
      {isTalk && (
        <Section title="Messages" open>
          <CutPart parts={parts} part="messages_in" />
          <CutPart parts={parts} part="messages_out" />
          <StepsView items={items} resume={goOn} />
        </Section>
      )}
      <Value title="Inputs" part="inputs" value={inputs} parts={parts} open={!isTalk} />
      <Value title="Outputs" part="outputs" value={outputs} parts={parts} open={!isTalk} />
    </>
  );
}

function Value({ title, part, value, parts, open }: { title: string; part: Part; value: unknown; parts: Parts; open: boolean }): ReactNode {
  if ((value === null || value === undefined) && parts.cut(part) === undefined) return null;
  return (
    <Section title={title} open={open} aside={<CopyButton label={`Copy ${title.toLowerCase()}`} text={() => (typeof value === 'string' ? value : JSON.stringify(value, null, 2))} />}>
      <CutPart parts={parts} part={part} />
      {typeof value === 'string' ? (
        <div dir="auto" className="max-h-[32rem] overflow-y-auto rounded-xl border bg-surface px-3 py-2 wrap-anywhere whitespace-pre-wrap"><LongText text={value} tidy={prose} /></div>
      ) : (
        <JsonBox value={value} />
      )}
    </Section>
  );
}

/** Says of a part that it is not shown whole, and gets it. */
export function CutPart({ parts, part }: { parts: Parts; part: Part }): ReactNode {
  const total = parts.cut(part);
  if (total === undefined) return null;
  const share = parts.share(part);
  return (
    <Cut busy={share !== undefined} {...(share === undefined ? {} : { share })} onAll={() => parts.load(part)}>
      {WORDS[part] ?? 'This'} shown in part: {formatSize(total)} in all.
    </Cut>
  );
}

const WORDS: Partial<Record<Part, string>> = { messages_in: 'What it was given is', messages_out: 'What it said is', inputs: 'The inputs are', outputs: 'The outputs are', attributes: 'The attributes are', events: 'The events are' };
