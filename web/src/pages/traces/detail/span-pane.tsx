/** Pane of one span: content, facts and the full record. */
import { useQuery } from '@tanstack/react-query';
import { Braces, MessageSquareShare } from 'lucide-react';
import type { ReactNode } from 'react';
import { Link } from 'wouter';
import { api } from '@/api/client';
import { runQuery } from '@/api/queries';
import { Button, CopyButton } from '@/components/button';
import { CollapsibleSection } from '@/components/collapsible';
import { jsonText } from '@/components/json-view';
import type { PlaygroundTarget } from '@/components/open-in-playground';
import { Badge, Loading, ErrorMessage } from '@/components/status';
import { LongText } from '@/components/text';
import { showError } from '@/components/toast';
import { formatDateTime } from '@/lib/format';
import { safeExact, safeProse } from '@/lib/safe-text';
import { spanQuery, type Span } from '@/pages/traces/queries';
import { spanFacts, type SpanFact } from '@/pages/traces/span-facts';
import { KindIcon, statusLabel } from '@/pages/traces/span-kind';
import { SpanContent, SpanDetails, useSpanParts } from './span-content';

interface Props {
  trace: string;
  id: string;
  openInPlayground: (load: () => Promise<PlaygroundTarget>) => Promise<void>;
}

export function SpanPane({ trace, id, openInPlayground }: Props): ReactNode {
  const { data, error } = useQuery(spanQuery(trace, id));
  if (error)
    return (
      <div className="p-4">
        <ErrorMessage error={error} />
      </div>
    );
  if (!data) return <Loading className="p-4" />;
  return <SpanView key={id} record={data} openInPlayground={openInPlayground} />;
}

function SpanView({
  record,
  openInPlayground,
}: {
  record: Span;
  openInPlayground: Props['openInPlayground'];
}): ReactNode {
  const parts = useSpanParts(record);
  const { span } = parts;
  const { trace_id: trace, span_id: id } = span;
  const resume = (messageCount?: number) =>
    openInPlayground(() =>
      api('post', '/api/traces/{trace}/thread', {
        path: { trace },
        body: { span_id: id, ...(messageCount === undefined ? {} : { upto: messageCount }) },
      }),
    );
  const isConversation = (span.messages_in?.length ?? 0) + (span.messages_out?.length ?? 0) > 0;
  return (
    <article aria-label="Span" className="mx-auto max-w-3xl px-4 py-3">
      <header className="mb-3">
        <div className="flex items-start gap-2">
          <KindIcon kind={span.kind ?? 'unknown'} className="mt-1 !size-4" />
          <h2 className="min-w-0 grow text-base font-semibold wrap-anywhere">
            <bdi>{safeExact(span.name ?? '').slice(0, 500) || 'unnamed'}</bdi>
          </h2>
          <Badge tone={span.status === 'error' ? 'bad' : span.status === 'ok' ? 'good' : 'warn'}>
            {statusLabel(span.status ?? 'ok')}
          </Badge>
        </div>
        <div className="mt-1 flex flex-wrap items-center gap-1 text-xs text-faint">
          <span className="font-mono">{id}</span>
          <CopyButton label="Copy span ID" text={id} />
          <CopyButton label="Copy span as JSON" icon={<Braces />} text={() => jsonText(span)} />
          <span className="grow" />
          {isConversation && (
            <Button size="small" onClick={() => void resume().catch(showError)}>
              <MessageSquareShare aria-hidden className="size-3.5" />
              Open in playground
            </Button>
          )}
        </div>
      </header>
      <SpanError span={span} />
      <SpanContent parts={parts} resume={resume} />
      <SpanFacts span={span} />
      <SpanDetails parts={parts} />
    </article>
  );
}

/** Exception, or status message. */
function SpanError({ span: { exception, status, status_message: message } }: { span: Span }): ReactNode {
  if (!exception && !(message && status !== 'ok')) return null;
  return (
    <div role="alert" className="mb-3 rounded-lg bg-bad-soft px-3 py-2 text-[13px] text-bad">
      {exception && (
        <div className="font-mono font-medium wrap-anywhere">{safeExact(exception.type).slice(0, 300)}</div>
      )}
      <div dir="auto" className="wrap-anywhere whitespace-pre-wrap">
        <LongText text={exception?.message || message || ''} sanitize={safeProse} />
      </div>
    </div>
  );
}

export function SpanFacts({ span }: { span: Span }): ReactNode {
  return (
    <CollapsibleSection title="Details" open>
      <dl className="grid grid-cols-[6.5rem_minmax(0,1fr)] gap-y-0.5 text-[13px]">
        {spanFacts(span).map((fact) => (
          <div key={fact.label} className="contents">
            <dt className="py-0.5 text-muted">{fact.label}</dt>
            <dd className="group/fact flex min-h-6 min-w-0 items-center gap-1">
              <FactValue fact={fact} />
              {fact.label === 'Run' && <RunThreadLink id={fact.text} />}
              {fact.code && (
                <CopyButton
                  className="opacity-0 group-hover/fact:opacity-100 focus-visible:opacity-100 !size-6"
                  label={`Copy ${fact.label.toLowerCase()}`}
                  text={fact.text}
                />
              )}
            </dd>
          </div>
        ))}
      </dl>
    </CollapsibleSection>
  );
}

function FactValue({ fact: { label, text, code, href } }: { fact: SpanFact }): ReactNode {
  const content =
    label === 'Started' ? (
      <time dateTime={text} title={text}>
        {formatDateTime(text)}
      </time>
    ) : (
      <bdi className={code ? 'font-mono text-xs' : ''}>{safeExact(text).slice(0, 1000)}</bdi>
    );
  return href ? (
    <Link href={href} className="min-w-0 wrap-anywhere text-accent hover:underline">
      {content}
    </Link>
  ) : (
    <span className="min-w-0 wrap-anywhere">{content}</span>
  );
}

/** Link to the thread of a run, if it still exists. */
export function RunThreadLink({ id }: { id: string }): ReactNode {
  const { data } = useQuery({ ...runQuery(id), retry: false });
  if (!data?.thread) return null;
  return (
    <Link href={`/play/${data.thread}`} className="shrink-0 text-accent hover:underline">
      Thread
    </Link>
  );
}
