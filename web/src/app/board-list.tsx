/** The saved boards in the sidebar, the last used first. */
import { useQuery } from '@tanstack/react-query';
import { EllipsisVertical, Grid2x2, Pencil, Rows3, Trash2 } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { Link, useLocation, useRoute } from 'wouter';
import type { Schemas } from '@/api/client';
import { boards } from '@/api/queries';
import { formatDateTime } from '@/lib/format';
import { classes } from '@/lib/class-names';
import { IconButton } from '@/components/button';
import { Menu, MenuItem } from '@/components/menu';
import { tellError } from '@/components/toast';
import { boardName, deleteBoard, newChat, renameBoard } from './boards';

const FEW = 5;

export function BoardList(): ReactNode {
  const { data } = useQuery(boards());
  const [all, setAll] = useState(false);
  const [, parameters] = useRoute('/play/:what');
  const found = data?.data ?? [];
  if (found.length === 0) return null;
  return (
    <section aria-label="Boards" className="pb-1">
      <h2 className="px-5 pt-2 pb-1 text-xs font-medium text-faint">Boards</h2>
      <ul className="px-2.5">
        {found.slice(0, all ? undefined : FEW).map((board) => (
          <BoardRow key={board.id} board={board} active={parameters?.what === board.id} />
        ))}
      </ul>
      {found.length > FEW && (
        <button type="button" onClick={() => setAll(!all)} className="mx-2.5 rounded-lg px-2.5 py-1 text-xs text-muted hover:text-ink">
          {all ? 'Show fewer' : `Show all ${found.length}`}
        </button>
      )}
    </section>
  );
}

function BoardRow({ board, active }: { board: Schemas['BoardListed']; active: boolean }): ReactNode {
  const [, navigate] = useLocation();
  const remove = () => deleteBoard(board, () => active && navigate(newChat()));
  return (
    <li className={classes('group relative rounded-lg', active ? 'bg-sunken' : 'hover:bg-sunken')}>
      <Link
        href={`/play/${board.id}`}
        aria-current={active ? 'page' : undefined}
        title={`${boardName(board)}\n${formatDateTime(board.updated_at)}`}
        className="flex h-8 items-center gap-2.5 rounded-lg pr-8 pl-2.5 -outline-offset-2 [&>svg]:size-4 [&>svg]:shrink-0 [&>svg]:text-faint"
      >
        {board.mode === 'chat' ? <Grid2x2 aria-hidden /> : <Rows3 aria-hidden />}
        <span className={classes('truncate', !board.name && 'text-muted')} dir="auto">
          {boardName(board)}
        </span>
      </Link>
      <div className="absolute top-1 right-1 opacity-0 group-focus-within:opacity-100 group-hover:opacity-100 has-data-[state=open]:opacity-100 pointer-coarse:opacity-100">
        <Menu
          trigger={
            <IconButton label="Board menu" size="small" className="!size-6">
              <EllipsisVertical />
            </IconButton>
          }
        >
          <MenuItem icon={<Pencil />} onSelect={() => void renameBoard(board).catch(tellError)}>
            Rename
          </MenuItem>
          <MenuItem icon={<Trash2 />} danger onSelect={() => void remove().catch(tellError)}>
            Delete
          </MenuItem>
        </Menu>
      </div>
    </li>
  );
}
