/** What is known of a span besides its content. */
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { runQuery } from '@/api/queries';
import { formatDateTime } from '@/lib/format';
import { exact } from '@/lib/safe-text';
import { CopyButton } from '@/components/button';
import { factsOf, type Fact } from './facts';
import type { Span } from './queries';
import { Section } from '@/components/collapsible';

export function Facts({ span }: { span: Span }): ReactNode {
  return (
    <Section title="Facts" open>
      <dl className="grid grid-cols-[6.5rem_minmax(0,1fr)] gap-y-0.5 text-[13px]">
        {factsOf(span).map((fact) => (
          <div key={fact.label} className="contents">
            <dt className="py-0.5 text-muted">{fact.label}</dt>
            <dd className="group/fact flex min-h-6 min-w-0 items-center gap-1">
              <Told fact={fact} />
              {fact.label === 'Run' && <RunThread id={fact.text} />}
              {fact.code && <CopyButton className="opacity-0 group-hover/fact:opacity-100 focus-visible:opacity-100 !size-6" label={`Copy ${fact.label.toLowerCase()}`} text={fact.text} />}
            </dd>
          </div>
        ))}
      </dl>
    </Section>
  );
}

function Told({ fact: { label, text, code, href } }: { fact: Fact }): ReactNode {
  const shown = label === 'Started' ? <time dateTime={text} title={text}>{formatDateTime(text)}</time> : <bdi className={code ? 'font-mono text-xs' : ''}>{exact(text).slice(0, 1000)}</bdi>;
  return href ? <Link href={href} className="min-w-0 wrap-anywhere text-accent hover:underline">{shown}</Link> : <span className="min-w-0 wrap-anywhere">{shown}</span>;
}

/** The thread that a run of ours was in, if it was in one and is still there. */
export function RunThread({ id }: { id: string }): ReactNode {
  const { data } = useQuery({ ...runQuery(id), retry: false });
  if (!data?.thread) return null;
  return <Link href={`/play/${data.thread}`} className="shrink-0 text-accent hover:underline">its thread</Link>;
}
