/** The line above the grid: the board's name, how it is used, and what can be added. */
import { useQuery } from '@tanstack/react-query';
import { MessagesSquare, Plus, Rows3 } from 'lucide-react';
import type { ReactNode } from 'react';
import { workflows } from '@/api/queries';
import { classes } from '@/lib/class-names';
import { usePreferences } from '@/lib/preferences';
import { Badge } from '@/components/status';
import { Button } from '@/components/button';
import { useBoard, useBoardStore } from './board-state';
import { addRow } from './row-strip';

export function Toolbar({ title, alone }: { title: string; alone: boolean }): ReactNode {
  const board = useBoard();
  const store = useBoardStore();
  const { transport } = usePreferences();
  return (
    <header className="flex h-12 shrink-0 items-center gap-2 border-b px-3">
      {alone ? (
        <h1 className="min-w-0 truncate px-1 font-semibold" dir="auto" title={title}>
          {title}
        </h1>
      ) : (
        <input
          aria-label="Name of the board"
          className="field-sizing-content h-8 max-w-[50vw] min-w-24 truncate rounded-md bg-transparent px-1 font-semibold hover:bg-sunken"
          placeholder="Untitled board"
          dir="auto"
          maxLength={200}
          value={board.name}
          onChange={(event) => store.change((now) => ({ ...now, name: event.target.value }))}
        />
      )}
      <span className="grow" />
      {transport === 'invocations' && <Badge tone="warn" title="Chosen in the settings">via /invocations</Badge>}
      {!alone && <Modes />}
      {!alone && board.mode === 'chat' && (
        <Button size="small" onClick={() => addRow(store)}>
          <Plus className="size-3.5" /> <span className="max-sm:sr-only">Add thread</span>
        </Button>
      )}
    </header>
  );
}

/** Talk, or ask once for each row. What is not a chat can only be asked. */
function Modes(): ReactNode {
  const board = useBoard();
  const store = useBoardStore();
  const known = useQuery(workflows()).data?.data ?? [];
  const chats = board.columns.every((column) => known.find((one) => one.name === column.workflow)?.is_chat !== false);
  const modes = [
    { value: 'chat' as const, label: 'Chat', icon: <MessagesSquare className="size-3.5" />, can: chats },
    { value: 'single' as const, label: 'Single turn', icon: <Rows3 className="size-3.5" />, can: true },
  ];
  return (
    <div role="radiogroup" aria-label="Mode" className="flex rounded-lg bg-sunken p-0.5">
      {modes.map(({ value, label, icon, can }) => (
        <button
          key={value}
          type="button"
          role="radio"
          aria-checked={board.mode === value}
          disabled={!can}
          title={can ? undefined : 'One of the workflows is not a chat'}
          onClick={() => store.change((now) => ({ ...now, mode: value }))}
          className={classes(
            'flex h-6 items-center gap-1.5 rounded-md px-2 text-[13px] disabled:opacity-40',
            board.mode === value ? 'bg-raised font-medium shadow-sm' : 'text-muted hover:text-ink',
          )}
        >
          {icon}
          <span className="max-sm:sr-only">{label}</span>
        </button>
      ))}
    </div>
  );
}
