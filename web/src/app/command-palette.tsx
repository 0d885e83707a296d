/** Command palette: pages, workflows, boards, threads (searched by the server) and commands. */
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { Command } from 'cmdk';
import { Grid2x2, MessagesSquare, PanelsTopLeft, Search, Workflow, Zap } from 'lucide-react';
import { Dialog } from 'radix-ui';
import { useState, type ReactNode } from 'react';
import { useLocation } from 'wouter';
import type { ThreadRow } from '@/api/client';
import { boardsQuery, queryClient, workflowsQuery } from '@/api/queries';
import { Kbd, Spinner } from '@/components/status';
import { cn } from '@/lib/cn';
import { formatAge } from '@/lib/format';
import { searchByTitle } from '@/lib/fuzzy-search';
import { useDebounced } from '@/lib/hooks';
import { DOCS_URL } from '@/lib/server-path';
import { boardName } from './board-list';
import { useCommands, formatKeys } from './commands';
import { threadTitle, threadPath, boardQuery, threadPagesQuery } from './threads';

const PAGES = [
  { title: 'Playground', href: '/play' },
  { title: 'Workflows', href: '/workflows' },
  { title: 'Traces', href: '/traces' },
  { title: 'Sessions', href: '/sessions' },
  { title: 'Test sets', href: '/testsets' },
  { title: 'Evaluations', href: '/evaluations' },
  { title: 'Reviews', href: '/reviews' },
  { title: 'Live evaluators', href: '/evaluations/online' },
  { title: 'Settings', href: '/settings' },
  { title: 'Docs', href: DOCS_URL },
];

export default function Palette({ onClose, onHelp }: { onClose: () => void; onHelp: () => void }): ReactNode {
  const [text, setText] = useState('');
  return (
    <Dialog.Root open onOpenChange={(open) => !open && onClose()}>
      <Dialog.Portal>
        <Dialog.Overlay className="fixed inset-0 z-40 bg-black/30" />
        <Dialog.Content
          aria-describedby={undefined}
          className={cn(
            'fixed top-[10dvh] left-1/2 z-40 w-[calc(100vw-1.5rem)] max-w-xl',
            '-translate-x-1/2 overflow-hidden rounded-2xl border bg-raised shadow-float',
          )}
        >
          <Dialog.Title className="sr-only">Search</Dialog.Title>
          <Command shouldFilter={false} loop label="Search">
            <div className="flex items-center gap-2.5 border-b px-4">
              <Search aria-hidden className="size-4 shrink-0 text-faint" />
              <Command.Input
                dir="auto"
                value={text}
                onValueChange={setText}
                maxLength={200}
                placeholder="Search or run a command…"
                className="h-12 min-w-0 grow bg-transparent text-base outline-none sm:text-sm"
              />
              <Kbd>Esc</Kbd>
            </div>
            <Command.List className="max-h-[min(26rem,60dvh)] overflow-y-auto overscroll-contain p-1.5">
              <Results text={text} onClose={onClose} onHelp={onHelp} />
            </Command.List>
          </Command>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function Results({ text, onClose, onHelp }: { text: string; onClose: () => void; onHelp: () => void }): ReactNode {
  const [, navigate] = useLocation();
  const commands = useCommands().filter(({ id }) => id !== 'palette');
  const workflows = useQuery(workflowsQuery()).data?.data ?? [];
  const boards = useQuery(boardsQuery()).data?.data ?? [];
  const search = useDebounced(text.trim(), 200);
  const threads = useInfiniteQuery(threadPagesQuery(search));
  const goTo = (href: string) => {
    onClose();
    if (href === DOCS_URL) window.open(href, '_blank', 'noreferrer');
    else navigate(href);
  };
  const open = async (thread: ThreadRow) => {
    const board = thread.board
      ? await queryClient.fetchQuery(boardQuery(thread.board)).catch(() => undefined)
      : undefined;
    goTo(threadPath(thread.id, board));
  };
  const rows = threads.data?.pages[0]?.data ?? [];
  return (
    <>
      <Command.Empty className="flex justify-center px-4 py-8 text-muted">
        {threads.isFetching ? <Spinner label="Searching" /> : 'No results.'}
      </Command.Empty>
      <Group title="Commands">
        {searchByTitle(text, commands, 12).map((command) => (
          <Item
            key={command.id}
            id={`do ${command.id}`}
            icon={<Zap />}
            title={command.title}
            {...(command.keys ? { keys: command.keys } : {})}
            onSelect={() => {
              if (command.id === 'shortcuts') return onHelp();
              onClose();
              // The dialog restores the focus first; then a command may move it.
              return setTimeout(command.run, 0);
            }}
          />
        ))}
      </Group>
      <Group title="Go to">
        {searchByTitle(text, PAGES).map(({ title, href }) => (
          <Item key={href} id={href} icon={<PanelsTopLeft />} title={title} onSelect={() => goTo(href)} />
        ))}
      </Group>
      <Group title="Workflows">
        {searchByTitle(
          text,
          workflows.map(({ name, description }) => ({ title: name, more: description })),
          text ? 8 : 4,
        ).map(({ title, more }) => (
          <Item
            key={title}
            id={`workflow ${title}`}
            icon={<Workflow />}
            title={title}
            trailing={more}
            onSelect={() => goTo(`/workflows/${encodeURIComponent(title)}`)}
          />
        ))}
      </Group>
      <Group title="Boards">
        {searchByTitle(
          text,
          boards.map((board) => ({ title: boardName(board), id: board.id })),
          text ? 8 : 3,
        ).map(({ title, id }) => (
          <Item key={id} id={id} icon={<Grid2x2 />} title={title} onSelect={() => goTo(`/play/${id}`)} />
        ))}
      </Group>
      <Group title={search ? 'Matching threads' : 'Recent threads'}>
        {rows.slice(0, search ? 20 : 5).map((thread) => (
          <Item
            key={thread.id}
            id={thread.id}
            icon={<MessagesSquare />}
            title={threadTitle(thread)}
            trailing={
              thread.match?.message
                ? thread.match.text
                : [thread.workflow, formatAge(thread.updated_at)].filter(Boolean).join(' · ')
            }
            onSelect={() => void open(thread)}
          />
        ))}
      </Group>
    </>
  );
}

const Group = ({ title, children }: { title: string; children: readonly ReactNode[] }): ReactNode =>
  children.length > 0 && (
    <Command.Group
      heading={title}
      className={cn(
        '[&>[cmdk-group-heading]]:px-2.5 [&>[cmdk-group-heading]]:pt-2 [&>[cmdk-group-heading]]:pb-1',
        '[&>[cmdk-group-heading]]:text-xs [&>[cmdk-group-heading]]:text-faint',
      )}
    >
      {children}
    </Command.Group>
  );

interface ItemProps {
  id: string;
  icon: ReactNode;
  title: string;
  trailing?: string;
  keys?: string;
  onSelect: () => void;
}

const Item = ({ id, icon, title, trailing, keys, onSelect }: ItemProps): ReactNode => (
  <Command.Item
    value={id}
    onSelect={onSelect}
    className={cn(
      'flex h-9 cursor-pointer items-center gap-2.5 rounded-lg px-2.5 select-none',
      'data-[selected=true]:bg-accent-soft [&>svg]:size-4 [&>svg]:shrink-0 [&>svg]:text-faint',
    )}
  >
    {icon}
    <span className="max-w-[70%] shrink-0 truncate" dir="auto">
      {title}
    </span>
    <span className="min-w-0 grow truncate text-xs text-muted" dir="auto">
      {trailing}
    </span>
    {keys && (
      <span className="hidden shrink-0 gap-1 sm:flex">
        {formatKeys(keys).map((key) => (
          <Kbd key={key}>{key}</Kbd>
        ))}
      </span>
    )}
  </Command.Item>
);
