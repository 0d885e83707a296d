/** What a run said, whole: a conversation as messages, a text as text, any other value as JSON. */
import { useQuery } from '@tanstack/react-query';
import { useMemo, type ReactNode } from 'react';
import { api } from '@/api/client';
import type { Run } from '@/api/types';
import { previewIn } from '@/components/preview';
import { messagesOf } from '@/components/messages/nodes';
import { JsonView } from '@/components/json-view';
import { LongText } from '@/components/text';
import { MessageView } from '@/components/messages/message-view';
import { type Said, asNodes, hasEnded } from '@/components/messages/run-output';

/** A value may hold a conversation: the server finds it. */
const extracted = (run: Run, value: unknown) => ({
  queryKey: ['extracted', run.id],
  queryFn: async ({ signal }: { signal: AbortSignal }) => (await api('post', '/api/extract', { body: { value, prefer: 'output' }, signal })).conversation,
  staleTime: Number.POSITIVE_INFINITY,
});

export function ReplyView({ run }: { run: Run }): ReactNode {
  const { messages = [], value } = run.reply ?? {};
  const holds = messages.length === 0 && value !== undefined && hasEnded(run) && previewIn(run.out).renderer === 'chat';
  const found = useQuery({ ...extracted(run, value), enabled: holds });
  if (messages.length) return <Talk messages={messages} run={run} />;
  if (found.data) return <Talk messages={found.data.messages} run={run} />;
  if (value === undefined) return hasEnded(run) && !run.error ? <span className="text-faint">Empty answer</span> : null;
  if (typeof value === 'string') {
    return (
      <p dir="auto" className="whitespace-pre-wrap">
        {value ? <LongText text={value} /> : <span className="text-faint">Empty text</span>}
      </p>
    );
  }
  return <JsonView value={value} open={2} />;
}

const NO_ACTS = {};

function Talk({ messages, run }: { messages: readonly Said[]; run: Run }): ReactNode {
  const shown = useMemo(() => messagesOf(asNodes(messages, run)), [messages, run]);
  return (
    <div className="flex flex-col gap-2">
      {shown.map((message) => (
        <MessageView key={message.id} message={message} streaming={!hasEnded(run)} acts={NO_ACTS} />
      ))}
    </div>
  );
}
