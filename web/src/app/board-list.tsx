/** Saved boards in the sidebar, most recently used first, and their actions. */
import { useQuery } from '@tanstack/react-query';
import { EllipsisVertical, Grid2x2, Pencil, Rows3, Trash2 } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { Link, useLocation, useRoute } from 'wouter';
import { type Schemas, api, fetchOk, type Board } from '@/api/client';
import { boardsQuery, queryClient } from '@/api/queries';
import { IconButton } from '@/components/button';
import { askText, askConfirmation } from '@/components/confirm-dialog';
import { Menu, MenuItem } from '@/components/menu';
import { showError } from '@/components/toast';
import { cn } from '@/lib/cn';
import { formatDateTime } from '@/lib/format';
import { deleteBoard as deleteStoredBoard } from '@/pages/playground/board-store';

const MAX_COLLAPSED = 5;

export function BoardList(): ReactNode {
  const { data } = useQuery(boardsQuery());
  const [showAll, setShowAll] = useState(false);
  const [, parameters] = useRoute('/play/:id');
  const boards = data?.data ?? [];
  if (boards.length === 0) return null;
  return (
    <section aria-label="Boards" className="pb-1">
      <h2 className="px-5 pt-2 pb-1 text-xs font-medium text-faint">Boards</h2>
      <ul className="px-2.5">
        {boards.slice(0, showAll ? undefined : MAX_COLLAPSED).map((board) => (
          <BoardRow key={board.id} board={board} active={parameters?.id === board.id} />
        ))}
      </ul>
      {boards.length > MAX_COLLAPSED && (
        <button
          type="button"
          onClick={() => setShowAll(!showAll)}
          className="mx-2.5 rounded-lg px-2.5 py-1 text-xs text-muted hover:text-ink"
        >
          {showAll ? 'Show fewer' : `Show all ${boards.length}`}
        </button>
      )}
    </section>
  );
}

function BoardRow({ board, active }: { board: Schemas['BoardListItem']; active: boolean }): ReactNode {
  const [, navigate] = useLocation();
  const remove = () => deleteBoard(board, () => active && navigate(newChatPath()));
  return (
    <li className={cn('group relative rounded-lg', active ? 'bg-sunken' : 'hover:bg-sunken')}>
      <Link
        href={`/play/${board.id}`}
        aria-current={active ? 'page' : undefined}
        title={`${boardName(board)}\n${formatDateTime(board.updated_at)}`}
        className={cn(
          'flex h-8 items-center gap-2.5 rounded-lg pr-8 pl-2.5 -outline-offset-2',
          '[&>svg]:size-4 [&>svg]:shrink-0 [&>svg]:text-faint',
        )}
      >
        {board.mode === 'chat' ? <Grid2x2 aria-hidden /> : <Rows3 aria-hidden />}
        <span className={cn('truncate', !board.name && 'text-muted')} dir="auto">
          {boardName(board)}
        </span>
      </Link>
      <div
        className={cn(
          'absolute top-1 right-1 opacity-0 group-focus-within:opacity-100',
          'group-hover:opacity-100 has-data-[state=open]:opacity-100 pointer-coarse:opacity-100',
        )}
      >
        <Menu
          trigger={
            <IconButton label="Board menu" size="small" className="size-6">
              <EllipsisVertical />
            </IconButton>
          }
        >
          <MenuItem icon={<Pencil />} onSelect={() => void renameBoard(board).catch(showError)}>
            Rename
          </MenuItem>
          <MenuItem icon={<Trash2 />} danger onSelect={() => void remove().catch(showError)}>
            Delete
          </MenuItem>
        </Menu>
      </div>
    </li>
  );
}

const CREATED_FORMAT = new Intl.DateTimeFormat('en', {
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  hour12: false,
});

type BoardSummary = Schemas['BoardListItem'];

/** A new path each time, so that navigating to it opens a new chat. */
export const newChatPath = (): string => `/play?new=${Date.now().toString(36)}`;

export const boardName = (board: Pick<BoardSummary, 'name' | 'created_at'>): string =>
  board.name || `Board, ${CREATED_FORMAT.format(new Date(board.created_at))}`;

const refreshBoards = (id: string) =>
  Promise.all([
    queryClient.invalidateQueries({ queryKey: ['boards'] }),
    queryClient.invalidateQueries({ queryKey: ['board', id] }),
  ]);

/** Ask for a name and set it. PUT replaces the whole board, so fetch it first; if-match protects concurrent changes. */
export async function renameBoard(board: BoardSummary): Promise<void> {
  const name = await askText({ title: 'Rename board', act: 'Rename', value: board.name, label: 'Name' });
  if (!name || name === board.name) return;
  const response = await fetchOk(`/api/boards/${encodeURIComponent(board.id)}`, {});
  const { mode, columns, rows, cells, layout, testset } = (await response.json()) as Board;
  const etag = response.headers.get('etag');
  await api('put', '/api/boards/{board}', {
    path: { board: board.id },
    // The generated body type allows no keys in free-form objects; send what was fetched.
    body: { name, mode, columns, rows, cells, layout, testset } as never,
    ...(etag ? { headers: { 'if-match': etag } } : {}),
  });
  await refreshBoards(board.id);
}

/** Asks for confirmation; calls `onConfirmed` before the board is deleted. */
export async function deleteBoard(board: BoardSummary, onConfirmed: () => void): Promise<void> {
  const confirmed = await askConfirmation({
    title: 'Delete this board?',
    text: `“${boardName(board)}” will be deleted. Its threads are kept.`,
    act: 'Delete',
    danger: true,
  });
  if (!confirmed) return;
  onConfirmed();
  await deleteStoredBoard(board.id);
  queryClient.removeQueries({ queryKey: ['board', board.id] });
  await queryClient.invalidateQueries({ queryKey: ['boards'] });
}
