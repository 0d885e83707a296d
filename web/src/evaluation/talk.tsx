/** Messages of a case as a chat, and any value as what it is: a conversation, calls, text or JSON. */
import { useQuery } from '@tanstack/react-query';
import { useMemo, type ReactNode } from 'react';
import { messagesOf } from '@/components/messages/nodes';
import { MessageView } from '@/components/messages/message-view';
import { asNodes } from '@/components/messages/run-output';
import { JsonBox } from '@/components/json-view';
import { Spinner } from '@/components/status';
import { conversationIn, type Said } from './queries';
import { asAnswer, wantedCalls } from './sides';

const NO_ACTS = {};
const EPOCH = '1970-01-01T00:00:00Z';

export function Talk({ messages, label }: { messages: readonly Said[]; label: string }): ReactNode {
  const shown = useMemo(() => {
    // Their own ids may be anything, and the same twice.
    // oxlint-disable-next-line oxc/no-map-spread -- the messages stay as they are
    const said = messages.map((message) => ({ ...message, id: null }));
    return messagesOf(asNodes(said, { id: 'case', status: 'finished', created_at: EPOCH }));
  }, [messages]);
  return (
    <div role="group" aria-label={label} className="flex min-w-0 flex-col gap-1">
      {shown.map((message) => <MessageView key={message.id} message={message} streaming={false} acts={NO_ACTS} />)}
    </div>
  );
}

/** `namesAreCalls`: a list of texts names tools. */
export function ValueView({ value, label, namesAreCalls = false }: { value: unknown; label: string; namesAreCalls?: boolean }): ReactNode {
  const calls = useMemo(() => wantedCalls(value, namesAreCalls), [value, namesAreCalls]);
  const isDeep = typeof value === 'object' && value !== null;
  const { data, isPending } = useQuery({ ...conversationIn(value), enabled: isDeep && calls === null });
  const plain = useMemo(() => (typeof value === 'string' ? asAnswer(value) : null), [value]);
  if (plain) return value === '' ? <p className="text-faint">Empty text</p> : <Talk messages={plain} label={label} />;
  if (calls) return <Talk messages={calls} label={label} />;
  if (isDeep && isPending) return <Spinner />;
  return data ? <Talk messages={data.messages} label={label} /> : <JsonBox value={value} />;
}
