/** One thread in the sidebar: its title, what it talks to, when; and what can be done with it. */
import { Copy, Download, EllipsisVertical, Pencil, Pin, PinOff, Trash2 } from 'lucide-react';
import type { MouseEvent, ReactNode } from 'react';
import { Link, useLocation } from 'wouter';
import { client } from '@/api/queries';
import type { ThreadRow as Row } from '@/api/types';
import { formatAge, formatDateTime } from '@/lib/format';
import { classes } from '@/lib/class-names';
import { IconButton } from '@/components/button';
import { Menu, MenuItem, MenuLine, MenuTitle } from '@/components/menu';
import { tellError } from '@/components/toast';
import { deleteThread, duplicateThread, exportThread, pinThread, renameThread, titleOf } from './acts';
import { placeOf } from './places';
import { board } from './queries';

export function ThreadRow({ thread, active, now }: { thread: Row; active: boolean; now: number }): ReactNode {
  const [, navigate] = useLocation();
  const open = (event: MouseEvent) => {
    if (!thread.board || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    client.fetchQuery(board(thread.board)).then(
      (found) => navigate(placeOf(thread.id, found)),
      () => navigate(placeOf(thread.id, undefined)),
    );
  };
  const title = titleOf(thread);
  return (
    <li className={classes('group relative rounded-lg [content-visibility:auto] [contain-intrinsic-size:auto_3rem]', active ? 'bg-accent-soft' : 'hover:bg-sunken')}>
      <Link
        href={placeOf(thread.id, undefined)}
        onClick={open}
        onPointerEnter={() => thread.board && void client.prefetchQuery(board(thread.board))}
        aria-current={active ? 'page' : undefined}
        title={`${title}\n${formatDateTime(thread.updated_at)}`}
        className="block rounded-lg py-1.5 pr-8 pl-2.5 -outline-offset-2"
      >
        <span className="flex items-center gap-1.5">
          {thread.run && <Running />}
          <span className={classes('truncate', !thread.title && 'text-muted italic')} dir="auto">
            {title}
          </span>
        </span>
        <span className="flex min-w-0 items-baseline gap-1 text-xs text-muted">
          {thread.match?.message ? (
            <span className="truncate" dir="auto">
              {thread.match.text}
            </span>
          ) : (
            <>
              {thread.workflow && <span className="truncate">{spoken(thread)}</span>}
              {thread.workflow && <span aria-hidden>·</span>}
              <span className="shrink-0">{formatAge(thread.updated_at, now)}</span>
            </>
          )}
        </span>
      </Link>
      <div className="absolute top-2 right-1 opacity-0 group-focus-within:opacity-100 group-hover:opacity-100 has-data-[state=open]:opacity-100 pointer-coarse:opacity-100">
        <ThreadMenu thread={thread} active={active} />
      </div>
    </li>
  );
}

const Running = (): ReactNode => (
  <span className="relative flex size-2 shrink-0" role="img" aria-label="Running">
    <span className="absolute size-full animate-ping rounded-full bg-accent opacity-60" />
    <span className="size-2 rounded-full bg-accent" />
  </span>
);

const spoken = ({ workflow, variant }: Row): string =>
  workflow ? (variant && variant !== 'default' ? `${workflow} · ${variant}` : workflow) : '';

const doing = (work: () => Promise<unknown>) => () => void work().catch(tellError);

function ThreadMenu({ thread, active }: { thread: Row; active: boolean }): ReactNode {
  const [, navigate] = useLocation();
  const remove = async () => {
    if ((await deleteThread(thread)) && active && !thread.board) navigate('/play');
  };
  const duplicate = async () => navigate(placeOf((await duplicateThread(thread)).id, undefined));
  return (
    <Menu
      trigger={
        <IconButton label="Thread menu" size="small" className="!size-6">
          <EllipsisVertical />
        </IconButton>
      }
    >
      <MenuItem icon={<Pencil />} onSelect={doing(() => renameThread(thread))}>
        Rename
      </MenuItem>
      <MenuItem icon={thread.pinned ? <PinOff /> : <Pin />} onSelect={doing(() => pinThread(thread))}>
        {thread.pinned ? 'Unpin' : 'Pin'}
      </MenuItem>
      <MenuItem icon={<Copy />} onSelect={doing(duplicate)}>
        Duplicate
      </MenuItem>
      <MenuLine />
      <MenuTitle>Export as</MenuTitle>
      <MenuItem icon={<Download />} onSelect={doing(() => exportThread(thread, 'jsonl'))}>
        JSONL, all branches
      </MenuItem>
      <MenuItem icon={<Download />} onSelect={doing(() => exportThread(thread, 'messages'))}>
        Messages
      </MenuItem>
      <MenuItem icon={<Download />} onSelect={doing(() => exportThread(thread, 'html'))}>
        HTML page
      </MenuItem>
      <MenuLine />
      <MenuItem icon={<Trash2 />} danger onSelect={doing(remove)}>
        Delete
      </MenuItem>
    </Menu>
  );
}
