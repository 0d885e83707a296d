/** One span: what it was given and what it gave, what is known of it, and everything that was sent. */
import { useQuery } from '@tanstack/react-query';
import { Braces, MessageSquareShare } from 'lucide-react';
import type { ReactNode } from 'react';
import { api } from '@/api/client';
import { Button, CopyButton } from '@/components/button';
import { written } from '@/components/json-view';
import type { Live } from '@/components/open-in-playground';
import { Badge, Problem, Spinner } from '@/components/status';
import { LongText } from '@/components/text';
import { tellError } from '@/components/toast';
import { exact, prose } from '@/lib/safe-text';
import { Facts } from './facts-view';
import { KindIcon, statusWord } from './kinds';
import { span as read, type Span } from './queries';
import { SpanContent } from './span-content';
import { SpanRest } from './span-rest';
import { useParts } from './whole-parts';

interface Props {
  trace: string;
  id: string;
  goOn: (read: () => Promise<Live>) => Promise<void>;
}

export function SpanPane({ trace, id, goOn }: Props): ReactNode {
  const { data, error } = useQuery(read(trace, id));
  if (error) return <div className="p-4"><Problem error={error} /></div>;
  if (!data) return <div className="p-4"><Spinner /></div>;
  return <Shown key={id} record={data} goOn={goOn} />;
}

function Shown({ record, goOn }: { record: Span; goOn: Props['goOn'] }): ReactNode {
  const parts = useParts(record);
  const { span } = parts;
  const { trace_id: trace, span_id: id } = span;
  const resume = (upto?: number) => goOn(() => api('post', '/api/traces/{trace}/thread', { path: { trace }, body: { span_id: id, ...(upto === undefined ? {} : { upto }) } }));
  const isTalk = (span.messages_in?.length ?? 0) + (span.messages_out?.length ?? 0) > 0;
  return (
    <article aria-label="Span" className="mx-auto max-w-3xl px-4 py-3">
      <header className="mb-3">
        <div className="flex items-start gap-2">
          <KindIcon kind={span.kind ?? 'unknown'} className="mt-1 !size-4" />
          <h2 className="min-w-0 grow text-base font-semibold wrap-anywhere"><bdi>{exact(span.name ?? '').slice(0, 500) || 'unnamed'}</bdi></h2>
          <Badge tone={span.status === 'error' ? 'bad' : span.status === 'ok' ? 'good' : 'warn'}>{statusWord(span.status ?? 'ok')}</Badge>
        </div>
        <div className="mt-1 flex flex-wrap items-center gap-1 text-xs text-faint">
          <span className="font-mono">{id}</span>
          <CopyButton label="Copy span id" text={id} />
          <CopyButton label="Copy record as JSON" icon={<Braces />} text={() => written(span)} />
          <span className="grow" />
          {isTalk && <Button size="small" onClick={() => void resume().catch(tellError)}><MessageSquareShare aria-hidden className="size-3.5" />Open in playground</Button>}
        </div>
      </header>
      <Failed span={span} />
      <SpanContent parts={parts} resume={resume} />
      <Facts span={span} />
      <SpanRest parts={parts} />
    </article>
  );
}

/** What was raised, or what the status says. */
function Failed({ span: { exception, status, status_message: said } }: { span: Span }): ReactNode {
  if (!exception && !(said && status !== 'ok')) return null;
  return (
    <div role="alert" className="mb-3 rounded-lg bg-bad-soft px-3 py-2 text-[13px] text-bad">
      {exception && <div className="font-mono font-medium wrap-anywhere">{exact(exception.type).slice(0, 300)}</div>}
      <div dir="auto" className="wrap-anywhere whitespace-pre-wrap"><LongText text={exception?.message || said || ''} tidy={prose} /></div>
    </div>
  );
}
