/** Everything behind a cell: the whole conversation, or the value that went in or came out. Asked for when it is shown. */
import { useQuery } from '@tanstack/react-query';
import { useMemo, type ReactNode } from 'react';
import type { Preview } from '@/api/types';
import { messagesOf } from '@/components/messages/nodes';
import { JsonView } from '@/components/json-view';
import { previewIn, PreviewView } from '@/components/preview';
import { Problem, Spinner } from '@/components/status';
import { LongText } from '@/components/text';
import { pluralize } from '@/lib/format';
import { prose } from '@/lib/safe-text';
import { MessageView } from '@/components/messages/message-view';
import { asNodes, type Said } from '@/components/messages/run-output';
import { conversation, record } from './queries';
import type { Row } from './rows';

/** Of a longer conversation the end is shown: its own page has it all. */
const MOST = 200;
const NO_ACTS = {};

interface Props {
  row: Row;
  side: 'in' | 'out';
  preview: Preview;
}

export function Whole({ row, side, preview }: Props): ReactNode {
  const { data, error } = useQuery(conversation(row.trace_id, row.spans === undefined ? row.span_id : null));
  if (error) return <Problem error={error} />;
  if (!data) return <Waiting preview={preview} />;
  return data.messages.length > 0 ? <Talk row={row} messages={data.messages} /> : <Value row={row} side={side} preview={preview} />;
}

/** What the list knows already, until there is more. */
const Waiting = ({ preview }: { preview: Preview }): ReactNode => (
  <div className="flex w-144 max-w-full flex-col gap-2">
    <PreviewView preview={preview} roomy />
    <Spinner />
  </div>
);

function Talk({ row, messages }: { row: Row; messages: readonly Said[] }): ReactNode {
  const left = Math.max(0, messages.length - MOST);
  const shown = useMemo(() => {
    // Their own ids may be anything, and the same twice.
    // oxlint-disable-next-line oxc/no-map-spread -- the messages stay as they are
    const said = messages.slice(left).map((message) => ({ ...message, id: null }));
    return messagesOf(asNodes(said, { id: row.span_id, status: 'finished', created_at: row.start }));
  }, [messages, left, row.span_id, row.start]);
  return (
    <section aria-label="Whole conversation" className="flex w-144 max-w-full flex-col">
      {left > 0 && <p className="text-xs text-faint">{pluralize(left, 'earlier message')}: open the trace to see all.</p>}
      {shown.map((message) => (
        <MessageView key={message.id} message={message} streaming={false} acts={NO_ACTS} />
      ))}
      {row.status === 'error' && (
        <p dir="auto" className="rounded-lg bg-bad-soft px-3 py-2 wrap-anywhere text-bad">
          {prose(previewIn(row.out).text ?? '') || 'It failed.'}
        </p>
      )}
    </section>
  );
}

function Value({ row, side, preview }: Props): ReactNode {
  const { data, error } = useQuery(record(row.trace_id, row.span_id));
  if (error) return <Problem error={error} />;
  if (!data) return <Waiting preview={preview} />;
  const value = 'inputs' in data ? (side === 'in' ? data.inputs : data.outputs) : undefined;
  if (value === null || value === undefined) return <PreviewView preview={preview} roomy />;
  if (typeof value === 'string') {
    return (
      <p dir="auto" className="max-w-144 wrap-anywhere whitespace-pre-wrap">
        <LongText text={value} />
      </p>
    );
  }
  return <JsonView value={value} open={2} />;
}
