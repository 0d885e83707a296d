/** What an item is about: what was asked, what came, and beside it what was expected, which in a blind review is asked for when it is opened. */
import { useQuery } from '@tanstack/react-query';
import { ListTree } from 'lucide-react';
import { useMemo, type ReactNode } from 'react';
import { Link } from 'wouter';
import { ScoreCard } from '@/evaluations/score-badge';
import { wholeTalk } from '@/evaluation/sides';
import { Talk, ValueView } from '@/evaluation/talk';
import { prose } from '@/lib/safe-text';
import { JsonBox } from '@/components/json-view';
import { Section } from '@/components/collapsible';
import { Problem, Spinner } from '@/components/status';
import { expected, type Content, type Item, type Review } from './queries';

interface Props {
  item: Item;
  review: Pick<Review, 'id' | 'blind' | 'run'>;
}

export function ItemView({ item, review: { id, blind, run } }: Props): ReactNode {
  const { content } = item;
  if (!content) return null;
  const given = Object.keys(content.inputs).length;
  const isLong = content.turns.length > 1;
  const beside = content.has_expected && !blind;
  return (
    <section
      ref={reached}
      tabIndex={-1}
      aria-label={`Item ${numberOf(item)}`}
      className="@container min-h-0 min-w-0 px-4 py-4 outline-none sm:px-6 lg:overflow-y-auto"
    >
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1 pb-3">
        <h2 className="font-semibold">Item {numberOf(item)}</h2>
        {content.variant && <span dir="auto" className="text-[13px] text-muted wrap-anywhere">answered by {prose(content.variant)}</span>}
        <span className="grow" />
        {!blind && <Ways item={item} run={run} />}
      </div>
      <div className="flex flex-col gap-4">
        {!isLong && content.history.length > 0 && <Pane title="Asked"><Talk messages={content.history} label="What was asked" /></Pane>}
        {given > 0 && <Section title="Inputs" count={given} open={content.history.length === 0}><JsonBox value={content.inputs} /></Section>}
        <div className={beside ? 'grid items-start gap-4 @xl:grid-cols-2' : undefined}>
          {beside && <Pane title="Expected"><ValueView value={content.expected} label="What was expected" /></Pane>}
          <Pane title={isLong ? 'Conversation' : 'Answered'} strong><Answer content={content} /></Pane>
        </div>
        {content.has_expected && blind && <Section title="What was expected"><Expected review={id} item={item.id} /></Section>}
        {content.scores.length > 0 && (
          <Section title="Scores" count={content.scores.length}>
            <div className="grid items-start gap-2 pt-1 @2xl:grid-cols-2">{content.scores.map((score) => <ScoreCard key={score.evaluator} score={score} />)}</div>
          </Section>
        )}
      </div>
    </section>
  );
}

function Expected({ review, item }: { review: string; item: string }): ReactNode {
  const { data, error } = useQuery(expected(review, item));
  if (error) return <Problem error={error} />;
  return data ? <ValueView value={data.expected} label="What was expected" /> : <Spinner />;
}

/** Whoever has just answered is told what is new, and the keys mean this item. */
const reached = (element: HTMLElement | null): void => element?.focus({ preventScroll: true });

/** As people count. */
export const numberOf = ({ id }: { id: string }): number => Number(id.replace('item_', '')) + 1;

function Ways({ item, run }: { item: Item; run: string | null }): ReactNode {
  const href = run && item.result ? `/evaluations/${run}?cell=${item.result}` : item.trace_id ? `/traces/${item.trace_id}` : null;
  return href && <Link href={href} className="inline-flex items-center gap-1.5 text-[13px] text-muted hover:text-accent"><ListTree aria-hidden className="size-3.5" />{run && item.result ? 'Its result' : 'Its trace'}</Link>;
}

function Pane({ title, strong = false, children }: { title: string; strong?: boolean; children: ReactNode }): ReactNode {
  return (
    <section aria-label={title} className="flex min-w-0 flex-col">
      <h3 className="mb-1 text-[13px] font-medium text-muted">{title}</h3>
      <div className={strong ? 'min-h-16 rounded-xl border border-strong-line bg-surface p-3' : 'max-h-[45dvh] min-h-16 overflow-y-auto rounded-xl border bg-surface p-3'}>{children}</div>
    </section>
  );
}

function Answer({ content }: { content: Content }): ReactNode {
  const said = useMemo(() => (content.turns.length > 1 ? wholeTalk(content) : content.messages), [content]);
  if (said.length > 0) return <Talk messages={said} label="What was answered" />;
  if (Object.hasOwn(content, 'value')) return <ValueView value={content.value} label="What was answered" />;
  return <p dir="auto" className={content.text ? 'wrap-anywhere whitespace-pre-wrap' : 'text-faint'}>{prose(content.text) || 'Nothing was said.'}</p>;
}
