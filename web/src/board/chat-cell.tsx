/** One cell of the grid: a thread with one variant. It streams on its own, stops on its own, and can be spoken to alone. */
import { useChat } from '@ai-sdk/react';
import { useQuery } from '@tanstack/react-query';
import { MessageSquare, Square } from 'lucide-react';
import { useEffect, useState, type ReactNode } from 'react';
import { workflows } from '@/api/queries';
import type { Column, Row } from '@/api/types';
import type { CellChat } from '@/chat/cell-chat';
import type { ChatMessage } from '@/components/messages/message';
import { classes } from '@/lib/class-names';
import { Kbd } from '@/components/status';
import { Button } from '@/components/button';
import { BesideInputs } from './beside-inputs';
import { MessageList } from './message-list';

interface Props {
  cell: CellChat;
  row: Row;
  column: Column;
  number: number;
  active: boolean;
  alone: boolean;
  onActive: () => void;
}

export function ChatCell({ cell, row, column, number, active, alone, onActive }: Props): ReactNode {
  useEffect(() => cell.open(), [cell]);
  return (
    <section
      aria-label={`${column.workflow} ${column.variant}, thread ${row.name || number}`}
      onPointerDown={onActive}
      onFocus={onActive}
      className={classes(
        'flex min-h-0 min-w-0 flex-col overflow-hidden bg-surface',
        !alone && 'rounded-xl border',
        !alone && (active ? 'border-accent ring-1 ring-accent' : 'border-line'),
      )}
    >
      <BesideInputs row={row.id} workflow={column.workflow}>
        <MessageList cell={cell} empty={<Quiet workflow={column.workflow} alone={alone} />} />
      </BesideInputs>
      <Foot cell={cell} />
    </section>
  );
}

/** What a cell shows before the first word: whom one talks to, and what else can be done here. */
function Quiet({ workflow, alone }: { workflow: string; alone: boolean }): ReactNode {
  const { data } = useQuery(workflows());
  const about = data?.data.find((one) => one.name === workflow)?.description;
  return (
    <div className="mx-auto flex h-full max-w-sm flex-col items-center justify-center gap-2 py-10 text-center text-muted">
      <MessageSquare className="size-6 text-faint" />
      <h2 className="font-semibold text-ink">Talk to {workflow}</h2>
      {about && <p dir="auto">{about}</p>}
      {alone && (
        <ul className="mt-4 flex flex-col items-start gap-1.5 text-left text-[13px] max-sm:hidden">
          <li><Kbd>+</Kbd> at the right compares it with a variant, or with another workflow</li>
          <li><Kbd>Add thread</Kbd> asks the same in several conversations</li>
          <li><Kbd>Ctrl K</Kbd> finds everything, <Kbd>?</Kbd> shows the keys</li>
        </ul>
      )}
    </div>
  );
}

function Foot({ cell }: { cell: CellChat }): ReactNode {
  const { status } = useChat<ChatMessage>({ chat: cell.chat, experimental_throttle: 250 });
  const busy = status === 'submitted' || status === 'streaming';
  const [stopping, setStopping] = useState(false);
  const stop = async () => {
    setStopping(true);
    await cell.stop().finally(() => setStopping(false));
  };
  if (!busy) return null;
  return (
    <div className="flex items-center gap-2 border-t px-3 py-1.5 text-xs text-muted">
      <Elapsed since={cell.since} />
      <span className="grow" />
      <Button size="small" onClick={() => void stop()} disabled={stopping}>
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
  return <span className="tabular-nums">{since ? `${Math.max(0, (now - since) / 1000).toFixed(1)} s` : 'Answering…'}</span>;
}
