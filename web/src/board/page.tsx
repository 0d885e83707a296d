/** /play: the playground. The address names what one sees: a board, a thread, and in it a cell and a branch. */
import { useQuery } from '@tanstack/react-query';
import { lazy, Suspense, useEffect, useMemo, useState, type ReactNode } from 'react';
import { useLocation, useSearchParams } from 'wouter';
import { bootstrap, client } from '@/api/queries';
import { socket } from '@/api/stream-fetch';
import { Problem, Spinner } from '@/components/status';
import { Button } from '@/components/button';
import { tellError } from '@/components/toast';
import { NoWorkflows } from '@/workflows/none';
import { BoardContext, useBoard, useBoardStore } from './board-state';
import { Cells, type CellName } from './cells';
import { ChatBoard } from './chat-board';
import { open, type Opened } from './opening';
import { Toolbar } from './toolbar';

const SingleBoard = lazy(() => import('@/single/single-board').then(({ SingleBoard: component }) => ({ default: component })));

/** What was opened last: a draft gets its address when it is saved, and must not be opened anew for that. */
let last: Opened | null = null;

export function BoardPage({ what }: { what: string | undefined }): ReactNode {
  const [search] = useSearchParams();
  const wanted = search.get('workflow');
  const told = useQuery(bootstrap());
  const kept = what !== undefined && last?.store.board.id === what ? last : null;
  const opened = useQuery({
    queryKey: ['opened', what ?? `new ${wanted} ${search.get('new')}`],
    enabled: told.data !== undefined && kept === null,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
    structuralSharing: false, // It is a store with methods, not a value.
    queryFn: async ({ signal }) => {
      if (!told.data) throw new Error('Nothing was told.');
      // What was told at first is old when one comes back: boards, and services that were connected since.
      const fresh = (staleTime: number) => client.fetchQuery({ ...bootstrap(), staleTime });
      let now = what === undefined ? await fresh(2000) : told.data;
      if (what === undefined && wanted && !now.workflows.data.some((one) => one.name === wanted)) now = await fresh(0); // Connected a moment ago.
      last = await open(what, wanted, search.has('new'), now, signal);
      return last;
    },
  });
  const shown = kept ?? opened.data;
  const error = told.error ?? opened.error;
  if (error) {
    return (
      <div className="mx-auto max-w-xl p-8">
        <Problem error={error}>
          <Button size="small" onClick={() => void (told.error ? told.refetch() : opened.refetch())}>
            Try again
          </Button>
        </Problem>
      </div>
    );
  }
  if (shown === undefined) return <div className="grid h-full place-items-center"><Spinner /></div>;
  return shown ? <Opening key={shown.key} opened={shown} /> : <NoWorkflows />;
}

function Opening({ opened }: { opened: Opened }): ReactNode {
  return (
    <BoardContext value={opened.store}>
      <Shown opened={opened} />
    </BoardContext>
  );
}

function Shown({ opened: { title, alone } }: { opened: Opened }): ReactNode {
  const store = useBoardStore();
  const board = useBoard();
  const [, go] = useLocation();
  const [search, setSearch] = useSearchParams();
  const [active, setActive] = useState<CellName>(() => named(search.get('cell')) ?? firstOf(store.board));
  const cells = useMemo(
    () => new Cells(store, (thread) => go(`/play/${thread.id}`), pointed(search.get('cell'), search.get('at'))),
    // oxlint-disable-next-line react/exhaustive-deps -- the address says where a cell begins; later it follows the cell
    [store],
  );
  useFollowed();

  const activate = (cell: CellName) => {
    if (cell.row === active.row && cell.column === active.column) return;
    setActive(cell);
    if (board.id) setSearch({ cell: `${cell.row}.${cell.column}` }, { replace: true });
  };
  const there = board.rows.some((row) => row.id === active.row) && board.columns.some((column) => column.id === active.column);
  return (
    <div className="flex h-full min-h-0 flex-col">
      <Toolbar title={title} alone={alone} />
      {board.mode === 'chat' ? (
        <ChatBoard cells={cells} active={there ? active : firstOf(board)} onActive={activate} alone={alone} />
      ) : (
        <Suspense fallback={<div className="p-8"><Spinner /></div>}>
          <SingleBoard />
        </Suspense>
      )}
    </div>
  );
}

/** The address of a draft becomes the board's once it is saved, without another look at it; other tabs' changes are taken over. */
function useFollowed(): void {
  const store = useBoardStore();
  const { id } = useBoard();
  useEffect(() => {
    if (id && !window.location.pathname.endsWith(`/play/${id}`)) {
      window.history.replaceState(null, '', `${window.location.pathname.replace(/\/play.*$/, '')}/play/${id}`);
    }
    const leave = socket.listen((notice) => {
      if (notice.changed === 'board' && notice.ref === id) void store.refresh().catch(tellError);
    });
    const save = () => void store.save().catch(() => {});
    window.addEventListener('pagehide', save);
    return () => {
      window.removeEventListener('pagehide', save);
      leave();
    };
  }, [id, store]);
}

const firstOf = (board: { rows: readonly { id: string }[]; columns: readonly { id: string }[] }): CellName => ({
  row: board.rows[0]?.id ?? '',
  column: board.columns[0]?.id ?? '',
});

function named(text: string | null): CellName | null {
  const [row, column] = text?.split('.') ?? [];
  return row && column ? { row, column } : null;
}

const pointed = (cell: string | null, message: string | null) => (cell && message ? { cell, message } : null);
