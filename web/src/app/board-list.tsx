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
import { deleteBoard as erase } from '@/pages/playground/board-store';

const MAX_COLLAPSED = 5;

export function BoardList(): ReactNode {
  const { data } = useQuery(boardsQuery());
  const [all, setAll] = useState(false);
  const [, parameters] = useRoute('/play/:id');
  const boards = data?.data ?? [];
  if (boards.length === 0) return null;
  return (
    <section aria-label="Boards" className="pb-1">
      <h2 className="px-5 pt-2 pb-1 text-xs font-medium text-faint">Boards</h2>
      <ul className="px-2.5">
        {boards.slice(0, all ? undefined : MAX_COLLAPSED).map((board) => (
          <BoardRow key={board.id} board={board} active={parameters?.id === board.id} />
        ))}
      </ul>
      {boards.length > MAX_COLLAPSED && (
        <button
          type="button"
          onClick={() => setAll(!all)}
          className="mx-2.5 rounded-lg px-2.5 py-1 text-xs text-muted hover:text-ink"
        >
          {all ? 'Show fewer' : `Show all ${boards.length}`}
        </button>
      )}
    </section>
  );
}

function BoardRow({ board, active }: { board: Schemas['BoardListed']; active: boolean }): ReactNode {
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

const WHEN = new Intl.DateTimeFormat('en', {
  month: 'short',
  day: 'numeric',
  hour: '2-digit',
  minute: '2-digit',
  hour12: false,
});

type BoardSummary = Schemas['BoardListed'];

/** A new address each time, so that navigating to it opens a new chat. */
export const newChatPath = (): string => `/play?new=${Date.now().toString(36)}`;

export const boardName = (board: Pick<BoardSummary, 'name' | 'created_at'>): string =>
  board.name || `Board, ${WHEN.format(new Date(board.created_at))}`;

const refreshBoards = (id: string) =>
  Promise.all([
    queryClient.invalidateQueries({ queryKey: ['boards'] }),
    queryClient.invalidateQueries({ queryKey: ['board', id] }),
  ]);

/** PUT replaces the whole board, so read it first; if-match protects a concurrent change. */
export async function renameBoard(board: BoardSummary): Promise<void> {
  const name = await askText({ title: 'Rename board', act: 'Rename', value: board.name, label: 'Name' });
  if (!name || name === board.name) return;
  const read = await fetchOk(`/api/boards/${encodeURIComponent(board.id)}`, {});
  const { mode, columns, rows, cells, layout, testset } = (await read.json()) as Board;
  const etag = read.headers.get('etag');
  await api('put', '/api/boards/{board}', {
    path: { board: board.id },
    // The generated body type allows no keys in free-form objects; send what was read.
    body: { name, mode, columns, rows, cells, layout, testset } as never,
    ...(etag ? { headers: { 'if-match': etag } } : {}),
  });
  await refreshBoards(board.id);
}

/** Asks for confirmation. Calls `leave` before the board is deleted. */
export async function deleteBoard(board: BoardSummary, onDeleted: () => void): Promise<void> {
  const confirmed = await askConfirmation({
    title: 'Delete this board?',
    text: `“${boardName(board)}” goes; its threads stay.`,
    act: 'Delete',
    danger: true,
  });
  if (!confirmed) return;
  onDeleted();
  await erase(board.id);
  queryClient.removeQueries({ queryKey: ['board', board.id] });
  await queryClient.invalidateQueries({ queryKey: ['boards'] });
}
