/** Short view of a cell's value: conversation, text or JSON. */
import { useQuery } from '@tanstack/react-query';
import { memo, type ReactNode } from 'react';
import { api } from '@/api/client';
import { jsonSummary } from '@/components/json-view';
import { Badge } from '@/components/status';
import { LongText } from '@/components/text';
import { cn } from '@/lib/cn';
import { pluralize } from '@/lib/format';
import { safeExact, safeProse } from '@/lib/safe-text';
import { type MessageText, isMessages, isSingleMessage, isScript, messagesIn, scriptMessages } from './cell-messages';
import type { TestsetColumn } from './edits';

interface Props {
  value: unknown;
  kind: TestsetColumn['kind'];
  isTall: boolean;
}

/** Characters shown of a text. */
const MAX_PREVIEW_LENGTH = 600;

export const CellView = memo(function CellView({ value, kind, isTall }: Props): ReactNode {
  if (value === undefined) return null;
  if (value === null) return <span className="font-mono text-xs text-faint">null</span>;
  if (typeof value === 'string') return <Text text={value} isTall={isTall} />;
  if (typeof value === 'number') return <span className="block text-right tabular-nums">{String(value)}</span>;
  if (typeof value === 'boolean')
    return <span className="font-mono text-[13px] text-(--code-keyword)">{String(value)}</span>;
  if (isScript(value)) return <MessagesPreview messages={scriptMessages(value)} noun="turn" isTall={isTall} />;
  if (kind === 'chat' || kind === 'message' || isMessages(value) || isSingleMessage(value))
    return <Conversation value={isSingleMessage(value) ? [value] : value} isTall={isTall} />;
  return <Json value={value} isTall={isTall} />;
});

const Text = ({ text, isTall }: { text: string; isTall: boolean }): ReactNode => (
  <span dir="auto" className={isTall ? 'line-clamp-3 wrap-anywhere whitespace-pre-wrap' : 'block truncate'}>
    {text === '' ? (
      <span className="text-xs text-faint">Empty text</span>
    ) : (
      safeProse(text.slice(0, isTall ? MAX_PREVIEW_LENGTH : 200))
    )}
  </span>
);

const Json = ({ value, isTall }: { value: unknown; isTall: boolean }): ReactNode => (
  <code className={cn('font-mono text-[12px]/5', isTall ? 'line-clamp-3 wrap-anywhere' : 'block truncate')}>
    {safeExact(jsonSummary(value, isTall ? 400 : 160))}
  </code>
);

/** Parses most formats here; the server extracts the messages of others. */
function Conversation({ value, isTall }: { value: unknown; isTall: boolean }): ReactNode {
  const messages = messagesIn(value);
  return messages ? (
    <MessagesPreview messages={messages} noun="message" isTall={isTall} />
  ) : (
    <ExtractedConversation value={value} isTall={isTall} />
  );
}

function ExtractedConversation({ value, isTall }: { value: unknown; isTall: boolean }): ReactNode {
  const text = JSON.stringify(value);
  const { data } = useQuery({
    queryKey: ['extracted', text],
    queryFn: ({ signal }) => api('post', '/api/extract', { body: { value }, signal }),
    staleTime: 'static',
    gcTime: 60_000,
    retry: false,
  });
  const preview = data?.preview;
  if (preview?.renderer !== 'chat') return <Json value={value} isTall={isTall} />;
  return <MessagesPreview messages={preview.messages} omitted={preview.more} noun="message" isTall={isTall} />;
}

function MessagesPreview({
  messages,
  omitted = 0,
  noun,
  isTall,
}: {
  messages: readonly MessageText[];
  omitted?: number;
  noun: string;
  isTall: boolean;
}): ReactNode {
  const last = messages.at(-1);
  const countView = <span className="text-xs text-faint">{pluralize(messages.length + omitted, noun)}</span>;
  if (!isTall)
    return (
      <span dir="auto" className="block truncate">
        {countView}{' '}
        {last && (
          <>
            <Role role={last.role} /> {safeProse(messageSummary(last).slice(0, 200))}
          </>
        )}
      </span>
    );
  const lastMessages = messages.slice(-2);
  return (
    <span className="flex flex-col gap-1">
      {messages.length + omitted > lastMessages.length && (
        <span className="text-[11px]/4 text-faint">
          {pluralize(messages.length + omitted - lastMessages.length, `earlier ${noun}`)}
        </span>
      )}
      {lastMessages.map((message, index) => (
        <span
          // oxlint-disable-next-line react/no-array-index-key -- messages have no ids
          key={index}
          className={cn('block rounded-md px-1.5 py-0.5', message.role === 'user' ? 'bg-accent-soft' : 'bg-sunken')}
        >
          <span dir="auto" className="line-clamp-2 text-[13px]/4.5 wrap-anywhere">
            <Role role={message.role} /> {safeProse(messageSummary(message).slice(0, MAX_PREVIEW_LENGTH))}
          </span>
        </span>
      ))}
    </span>
  );
}

const Role = ({ role }: { role: string }): ReactNode => (
  <span className="text-[11px] text-muted">{safeProse(role.slice(0, 20))}</span>
);

const messageSummary = ({ text, calls, attachments }: MessageText): string =>
  text || calls.join(', ') || (attachments ? pluralize(attachments, 'attachment') : '');

export type ChangeKind = 'added' | 'removed' | 'changed';
const CHANGE_BORDERS: Readonly<Record<ChangeKind, string>> = {
  added: 'border-good',
  removed: 'border-bad opacity-70',
  changed: 'border-warn',
};
const CHANGE_TONES = { added: 'good', removed: 'bad', changed: 'warn' } as const;

export const ConversationView = ({ messages }: { messages: readonly MessageText[] }): ReactNode => (
  <div className="flex flex-col gap-2">
    {messages.map((message, index) => (
      // oxlint-disable-next-line react/no-array-index-key -- messages have no ids
      <MessageView key={index} message={message} />
    ))}
  </div>
);

/** `text` replaces the message's own, for diffs. */
export function MessageView({
  message,
  op,
  text,
}: {
  message: MessageText;
  op?: ChangeKind;
  text?: ReactNode;
}): ReactNode {
  return (
    <div
      className={cn(
        'rounded-lg px-2.5 py-1.5',
        message.role === 'user' ? 'bg-accent-soft' : 'bg-sunken',
        op && `border-l-2 ${CHANGE_BORDERS[op]}`,
      )}
    >
      <p className="flex items-center gap-2 text-[11px]/5 text-muted">
        {safeProse(message.role.slice(0, 40))}
        {op && <Badge tone={CHANGE_TONES[op]}>{op}</Badge>}
      </p>
      <div dir="auto" className="wrap-anywhere whitespace-pre-wrap">
        {text ?? <LongText text={message.text} />}
      </div>
      {message.calls.map((call, index) => (
        // oxlint-disable-next-line react/no-array-index-key -- the same call may come twice
        <p key={index} className="font-mono text-[12px]/5 text-muted wrap-anywhere">
          {safeExact(call)}
        </p>
      ))}
      {message.attachments > 0 && <p className="text-xs text-muted">{pluralize(message.attachments, 'attachment')}</p>}
    </div>
  );
}
