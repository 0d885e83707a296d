/** /play: the playground. The URL names the board or thread, and the cell and branch in it. */
import { useQuery } from '@tanstack/react-query';
import { MessagesSquare, Plus, Rows3 } from 'lucide-react';
import { lazy, Suspense, useEffect, useMemo, useState, type ReactNode } from 'react';
import { useLocation, useSearchParams } from 'wouter';
import { bootstrapQuery, queryClient, workflowsQuery } from '@/api/queries';
import { socket } from '@/api/stream-fetch';
import { Button } from '@/components/button';
import { Loading, ErrorMessage } from '@/components/status';
import { showError } from '@/components/toast';
import { cn } from '@/lib/cn';
import { NoWorkflows } from '@/pages/workflows/no-workflows';
import { BoardContext, useBoard, useBoardStore } from './board-store';
import { CellChats, type CellName } from './chat/cell-chat';
import { ChatBoard } from './chat/chat-board';
import { openBoard, type OpenedBoard } from './open-board';
import { addRow } from './row-inputs';

const SingleBoard = lazy(() =>
  import('./single-turn/board').then(({ SingleTurnBoard }) => ({ default: SingleTurnBoard })),
);

/** The last opened board: a draft gets a URL when it is saved, and must not be opened again for that. */
let lastOpened: OpenedBoard | null = null;

export function PlaygroundPage({ id }: { id: string | undefined }): ReactNode {
  const [search] = useSearchParams();
  const requestedWorkflow = search.get('workflow');
  const bootstrap = useQuery(bootstrapQuery());
  const reused = id !== undefined && lastOpened?.store.board.id === id ? lastOpened : null;
  const opened = useQuery({
    queryKey: ['opened', id ?? `new ${requestedWorkflow} ${search.get('new')}`],
    enabled: bootstrap.data !== undefined && reused === null,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    structuralSharing: false, // A store with methods, not a plain value.
    queryFn: async ({ signal }) => {
      if (!bootstrap.data) throw new Error('Bootstrap data is missing.');
      // Refetch when returning: boards and workflows may have changed.
      const fetchBootstrap = (staleTime: number) => queryClient.fetchQuery({ ...bootstrapQuery(), staleTime });
      let fresh = id === undefined ? await fetchBootstrap(2000) : bootstrap.data;
      if (id === undefined && requestedWorkflow && !fresh.workflows.data.some(({ name }) => name === requestedWorkflow))
        fresh = await fetchBootstrap(0);
      lastOpened = await openBoard(id, requestedWorkflow, search.has('new'), fresh, signal);
      return lastOpened;
    },
  });
  const current = reused ?? opened.data;
  const error = bootstrap.error ?? opened.error;
  if (error) {
    return (
      <div className="mx-auto max-w-xl p-8">
        <ErrorMessage error={error}>
          <Button size="small" onClick={() => void (bootstrap.error ? bootstrap.refetch() : opened.refetch())}>
            Retry
          </Button>
        </ErrorMessage>
      </div>
    );
  }
  if (current === undefined) return <Loading className="grid h-full place-items-center" />;
  return current ? <OpenedBoardView key={current.key} opened={current} /> : <NoWorkflows />;
}

function OpenedBoardView({ opened }: { opened: OpenedBoard }): ReactNode {
  return (
    <BoardContext value={opened.store}>
      <BoardView opened={opened} />
    </BoardContext>
  );
}

function BoardView({ opened: { title, isStandalone } }: { opened: OpenedBoard }): ReactNode {
  const store = useBoardStore();
  const board = useBoard();
  const [, navigate] = useLocation();
  const [search, setSearch] = useSearchParams();
  const [active, setActive] = useState<CellName>(() => parseCellName(search.get('cell')) ?? firstCell(store.board));
  const cells = useMemo(
    () =>
      new CellChats(
        store,
        (thread) => navigate(`/play/${thread.id}`),
        linkedMessage(search.get('cell'), search.get('at')),
      ),
    // oxlint-disable-next-line react/exhaustive-deps -- only the first URL matters; later the URL follows the cell
    [store],
  );
  useBoardUpdates();

  const activate = (cell: CellName) => {
    if (cell.row === active.row && cell.column === active.column) return;
    setActive(cell);
    if (board.id) setSearch({ cell: `${cell.row}.${cell.column}` }, { replace: true });
  };
  const isActivePresent =
    board.rows.some((row) => row.id === active.row) && board.columns.some((column) => column.id === active.column);
  return (
    <div className="flex h-full min-h-0 flex-col">
      <Toolbar title={title} isStandalone={isStandalone} />
      {board.mode === 'chat' ? (
        <ChatBoard
          cells={cells}
          active={isActivePresent ? active : firstCell(board)}
          onActive={activate}
          isStandalone={isStandalone}
        />
      ) : (
        <Suspense fallback={<Loading className="p-8" />}>
          <SingleBoard />
        </Suspense>
      )}
    </div>
  );
}

/** Replace the URL of a draft once it is saved, and take over changes of other tabs. */
function useBoardUpdates(): void {
  const store = useBoardStore();
  const { id } = useBoard();
  useEffect(() => {
    if (id && !window.location.pathname.endsWith(`/play/${id}`)) {
      window.history.replaceState(null, '', `${window.location.pathname.replace(/\/play.*$/, '')}/play/${id}`);
    }
    const unsubscribe = socket.listen((notice) => {
      if (notice.changed === 'board' && notice.ref === id) void store.refresh().catch(showError);
    });
    const save = () => void store.save().catch(() => {});
    window.addEventListener('pagehide', save);
    return () => {
      window.removeEventListener('pagehide', save);
      unsubscribe();
    };
  }, [id, store]);
}

const firstCell = (board: { rows: readonly { id: string }[]; columns: readonly { id: string }[] }): CellName => ({
  row: board.rows[0]?.id ?? '',
  column: board.columns[0]?.id ?? '',
});

function parseCellName(text: string | null): CellName | null {
  const [row, column] = text?.split('.') ?? [];
  return row && column ? { row, column } : null;
}

const linkedMessage = (cell: string | null, message: string | null) => (cell && message ? { cell, message } : null);

export function Toolbar({ title, isStandalone }: { title: string; isStandalone: boolean }): ReactNode {
  const board = useBoard();
  const store = useBoardStore();
  return (
    <header className="flex h-12 shrink-0 items-center gap-2 border-b px-3">
      {isStandalone ? (
        <h1 className="min-w-0 truncate px-1 font-semibold" dir="auto" title={title}>
          {title}
        </h1>
      ) : (
        <input
          aria-label="Board name"
          className={cn(
            'field-sizing-content h-8 max-w-[50vw] min-w-24 truncate',
            'rounded-md bg-transparent px-1 font-semibold hover:bg-sunken',
          )}
          placeholder="Untitled board"
          dir="auto"
          maxLength={200}
          value={board.name}
          onChange={(event) => store.change((old) => ({ ...old, name: event.target.value }))}
        />
      )}
      <span className="grow" />
      {!isStandalone && <Modes />}
      {!isStandalone && board.mode === 'chat' && (
        <Button size="small" onClick={() => addRow(store)}>
          <Plus className="size-3.5" /> <span className="max-sm:sr-only">Add thread</span>
        </Button>
      )}
    </header>
  );
}

/** Chat or single-turn mode. Workflows that are no chats only have the latter. */
function Modes(): ReactNode {
  const board = useBoard();
  const store = useBoardStore();
  const workflows = useQuery(workflowsQuery()).data?.data ?? [];
  const hasOnlyChats = board.columns.every(
    (column) => workflows.find((workflow) => workflow.name === column.workflow)?.is_chat !== false,
  );
  const modes = [
    { value: 'chat' as const, label: 'Chat', icon: <MessagesSquare className="size-3.5" />, isAvailable: hasOnlyChats },
    { value: 'single' as const, label: 'Single-turn', icon: <Rows3 className="size-3.5" />, isAvailable: true },
  ];
  return (
    <div role="radiogroup" aria-label="Mode" className="flex rounded-lg bg-sunken p-0.5">
      {modes.map(({ value, label, icon, isAvailable }) => (
        <button
          key={value}
          type="button"
          role="radio"
          aria-checked={board.mode === value}
          disabled={!isAvailable}
          title={isAvailable ? undefined : 'Unavailable: the board has a single-turn workflow'}
          onClick={() => store.change((old) => ({ ...old, mode: value }))}
          className={cn(
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
