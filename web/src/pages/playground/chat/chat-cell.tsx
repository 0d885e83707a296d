/** A cell of the chat grid: one thread with one variant. */
import { useChat } from '@ai-sdk/react';
import { useQuery } from '@tanstack/react-query';
import { MessageSquare, Square, ArrowDown, RotateCcw } from 'lucide-react';
import { useEffect, useState, type ReactNode, memo, useLayoutEffect, useMemo, useRef, type UIEvent } from 'react';
import { useStore } from 'zustand';
import type { Column, Row } from '@/api/client';
import { workflowsQuery } from '@/api/queries';
import { Button, IconButton } from '@/components/button';
import type { ChatMessage } from '@/components/messages/message';
import { MessageView } from '@/components/messages/message-view';
import { Kbd, LoadError, ErrorMessage, Spinner } from '@/components/status';
import { showError } from '@/components/toast';
import { cn } from '@/lib/cn';
import { RowInputsProvider } from '@/pages/playground/row-inputs';
import type { CellChat } from './cell-chat';

interface Props {
  cell: CellChat;
  row: Row;
  column: Column;
  number: number;
  active: boolean;
  isStandalone: boolean;
  onActive: () => void;
}

export function ChatCell({ cell, row, column, number, active, isStandalone, onActive }: Props): ReactNode {
  useEffect(() => cell.open(), [cell]);
  return (
    <section
      aria-label={`${column.workflow} ${column.variant}, thread ${row.name || number}`}
      onPointerDown={onActive}
      onFocus={onActive}
      className={cn(
        'flex min-h-0 min-w-0 flex-col overflow-hidden bg-surface',
        !isStandalone && 'rounded-xl border',
        !isStandalone && (active ? 'border-accent ring-1 ring-accent' : 'border-line'),
      )}
    >
      <RowInputsProvider row={row.id} workflow={column.workflow}>
        <MessageList cell={cell} empty={<EmptyCell workflow={column.workflow} isStandalone={isStandalone} />} />
      </RowInputsProvider>
      <CellFooter cell={cell} />
    </section>
  );
}

/** Placeholder before the first message. */
function EmptyCell({ workflow, isStandalone }: { workflow: string; isStandalone: boolean }): ReactNode {
  const { data } = useQuery(workflowsQuery());
  const description = data?.data.find((candidate) => candidate.name === workflow)?.description;
  return (
    <div
      className={cn(
        'mx-auto flex h-full max-w-sm flex-col items-center',
        'justify-center gap-2 py-10 text-center text-muted',
      )}
    >
      <MessageSquare className="size-6 text-faint" />
      <h2 className="font-semibold text-ink">Chat with {workflow}</h2>
      {description && <p dir="auto">{description}</p>}
      {isStandalone && (
        <ul className="mt-4 flex flex-col items-start gap-1.5 text-left text-[13px] max-sm:hidden">
          <li>
            Click <Kbd>+</Kbd> to compare with a variant or another workflow
          </li>
          <li>
            Click <Kbd>Add thread</Kbd> to send the same message in several threads
          </li>
          <li>
            Press <Kbd>Ctrl K</Kbd> to search, <Kbd>?</Kbd> for shortcuts
          </li>
        </ul>
      )}
    </div>
  );
}

function CellFooter({ cell }: { cell: CellChat }): ReactNode {
  const { status } = useChat<ChatMessage>({ chat: cell.chat, experimental_throttle: 250 });
  const busy = status === 'submitted' || status === 'streaming';
  const [isStopping, setStopping] = useState(false);
  const stop = async () => {
    setStopping(true);
    await cell.stop().finally(() => setStopping(false));
  };
  if (!busy) return null;
  return (
    <div className="flex items-center gap-2 border-t px-3 py-1.5 text-xs text-muted">
      <Elapsed since={cell.since} />
      <span className="grow" />
      <Button size="small" onClick={() => void stop()} disabled={isStopping}>
        <Square className="size-3 fill-current" /> Stop
      </Button>
    </div>
  );
}

function Elapsed({ since }: { since: number | null }): ReactNode {
  const [now, setNow] = useState(() => Date.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 200);
    return () => clearInterval(timer);
  }, []);
  return (
    <span className="tabular-nums">{since ? `${Math.max(0, (now - since) / 1000).toFixed(1)} s` : 'Answering…'}</span>
  );
}

/** Distance to the end, in pixels, that counts as being at the end. */
const END_DISTANCE_PX = 80;
/** Distance to the start, in pixels, at which older messages are fetched. */
const PREFETCH_DISTANCE_PX = 1500;

/** Messages of a cell. Follows the end while the user is there, and loads older messages on scrolling up. */
export function MessageList({ cell, empty }: { cell: CellChat; empty: ReactNode }): ReactNode {
  const { messages, status, error } = useChat<ChatMessage>({ chat: cell.chat, experimental_throttle: 50 });
  useStore(cell.version);
  const { scroller, content, isAway, onScroll, toEnd } = useStickToEnd(messages, () => void cell.loadOlder());
  const busy = status === 'submitted' || status === 'streaming';
  const last = messages.at(-1);
  const isWaiting = busy && !(last?.role === 'assistant' && last.parts.some((part) => part.type !== 'step-start'));
  return (
    <div className="relative min-h-0 grow">
      <div
        ref={scroller}
        onScroll={onScroll}
        className="h-full overflow-x-hidden overflow-y-auto overscroll-contain px-4 py-3"
        role="log"
        aria-live="off"
      >
        {cell.older && (
          <div className="flex justify-center py-2">
            <Button size="small" variant="quiet" onClick={() => void cell.loadOlder()}>
              {cell.loading ? <Spinner /> : 'Earlier messages'}
            </Button>
          </div>
        )}
        {cell.problem && <LoadError error={cell.problem} onRetry={cell.load} />}
        {messages.length === 0 && !busy && !cell.problem && (cell.loading ? <Spinner /> : empty)}
        <div ref={content} className="mx-auto flex max-w-3xl flex-col gap-4">
          {messages.map((message) => (
            <MessageRow
              key={message.id}
              cell={cell}
              message={message}
              streaming={busy && message === last}
              busy={busy}
            />
          ))}
          {isWaiting && <TypingIndicator />}
          {error && (
            <ErrorMessage error={error}>
              <Button size="small" variant="danger" onClick={() => void cell.retry().catch(showError)}>
                <RotateCcw className="size-3.5" /> Retry
              </Button>
            </ErrorMessage>
          )}
        </div>
      </div>
      {isAway && (
        <IconButton
          label="Scroll to end"
          variant="plain"
          onClick={toEnd}
          className="absolute bottom-3 left-1/2 -translate-x-1/2 rounded-full shadow-float"
        >
          <ArrowDown />
        </IconButton>
      )}
    </div>
  );
}

interface MessageRowProps {
  cell: CellChat;
  message: ChatMessage;
  streaming: boolean;
  busy: boolean;
}

const MessageRow = memo(function MessageRow({ cell, message, streaming, busy }: MessageRowProps): ReactNode {
  // oxlint-disable-next-line react/exhaustive-deps -- the available actions depend on `busy`
  const actions = useMemo(() => cell.actionsOf(message), [cell, message, busy]);
  // `content-visibility` skips the layout of distant messages, so long threads scroll smoothly.
  return (
    <div className={streaming ? '' : '[contain-intrinsic-size:auto_8rem] [content-visibility:auto]'}>
      <MessageView message={message} streaming={streaming} actions={actions} />
    </div>
  );
});

const TypingIndicator = (): ReactNode => (
  <div className="flex h-6 items-center gap-1" aria-label="Waiting for the answer">
    {[0, 150, 300].map((delay) => (
      <span
        key={delay}
        className="size-1.5 animate-pulse rounded-full bg-faint"
        style={{ animationDelay: `${delay}ms` }}
      />
    ))}
  </div>
);

/** Keep the end in view while the user is there, and the scroll position when older messages arrive. */
function useStickToEnd(messages: readonly ChatMessage[], loadOlder: () => void) {
  const scroller = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const scrollState = useRef({ atEnd: true, first: '', last: '', height: 0, top: 0 });
  const [isAway, setAway] = useState(false);
  const first = messages[0]?.id ?? '';
  const lastUserMessage = messages.findLast((message) => message.role === 'user')?.id ?? '';

  useLayoutEffect(() => {
    const box = scroller.current;
    if (!box) return;
    const before = scrollState.current;
    // Sending always scrolls to the end.
    const atEnd =
      before.atEnd ||
      (lastUserMessage !== '' && before.last !== '' && lastUserMessage !== before.last && before.first === first);
    const hasGrownAbove = before.first !== '' && before.first !== first && !atEnd;
    if (atEnd) box.scrollTop = box.scrollHeight;
    else if (hasGrownAbove) box.scrollTop += box.scrollHeight - before.height;
    scrollState.current = { atEnd, first, last: lastUserMessage, height: box.scrollHeight, top: box.scrollTop };
    // oxlint-disable-next-line react/exhaustive-effect-dependencies -- a new message changes the height
  }, [messages, first, lastUserMessage]);

  // Heights also change by layout, highlighting and images.
  useEffect(() => {
    const box = scroller.current;
    if (!box || !content.current) return undefined;
    const observer = new ResizeObserver(() => {
      if (scrollState.current.atEnd) box.scrollTop = box.scrollHeight;
      scrollState.current.height = box.scrollHeight;
    });
    observer.observe(content.current);
    observer.observe(box);
    return () => observer.disconnect();
  }, []);

  const onScroll = (event: UIEvent<HTMLDivElement>) => {
    const box = event.currentTarget;
    const before = scrollState.current;
    const isNearEnd = box.scrollHeight - box.scrollTop - box.clientHeight < END_DISTANCE_PX;
    // Only the user scrolls up; growing content does not count as leaving the end.
    const atEnd = isNearEnd || (before.atEnd && box.scrollTop >= before.top - 1);
    scrollState.current = { ...before, atEnd, height: box.scrollHeight, top: box.scrollTop };
    setAway(!atEnd);
    if (box.scrollTop < PREFETCH_DISTANCE_PX) loadOlder();
  };
  const toEnd = () => {
    scrollState.current.atEnd = true;
    scroller.current?.scrollTo({ top: scroller.current.scrollHeight });
  };
  return { scroller, content, isAway, onScroll, toEnd };
}
