/** Navigation: the sidebar, and a narrow rail of icons. */
import { useQuery } from '@tanstack/react-query';
import {
  BookOpen,
  FlaskConical,
  History,
  ListTree,
  LogOut,
  MessagesSquare,
  PanelLeftClose,
  PanelLeftOpen,
  Radio,
  Search,
  Settings,
  SquarePen,
  Table2,
  UsersRound,
  Workflow,
} from 'lucide-react';
import type { ReactNode } from 'react';
import { Link, useLocation } from 'wouter';
import { api } from '@/api/client';
import { queryClient } from '@/api/queries';
import { Hint, IconButton } from '@/components/button';
import { showError } from '@/components/toast';
import { cn } from '@/lib/cn';
import { DOCS_URL } from '@/lib/server-path';
import { sessionQuery } from './auth';
import { BoardList, newChatPath } from './board-list';
import { formatShortcut, KEYS } from './commands';
import icon from './icon.svg';
import { ThreadList } from './thread-list';
import { TourIcon, TourPanel } from './tour/tour';

interface Props {
  /** Whether the bootstrap response has arrived; nothing is fetched before. */
  ready: boolean;
  onFold?: () => void;
  onPalette: () => void;
}

export function Sidebar({ ready, onFold, onPalette }: Props): ReactNode {
  const [, navigate] = useLocation();
  return (
    <div className="flex h-full flex-col bg-canvas">
      <header className="flex h-12 shrink-0 items-center gap-2 pr-2 pl-4.5">
        <Link href="/play" className="flex grow items-center gap-2 rounded-md font-semibold">
          <img src={icon} alt="" className="size-5" />
          Palaver
        </Link>
        <IconButton label="Search" keys={formatShortcut(KEYS.palette)} onClick={onPalette}>
          <Search />
        </IconButton>
        {onFold && (
          <IconButton label="Hide sidebar" keys={formatShortcut(KEYS.sidebar)} onClick={onFold}>
            <PanelLeftClose />
          </IconButton>
        )}
      </header>
      <div className="px-3 pb-2">
        <button
          type="button"
          onClick={() => navigate(newChatPath())}
          className={cn(
            'flex h-8 w-full items-center justify-center gap-2 rounded-lg border bg-surface font-medium',
            'transition-colors hover:border-strong-line [&>svg]:size-4 [&>svg]:text-muted',
          )}
        >
          <SquarePen aria-hidden /> New chat
        </button>
      </div>
      <nav aria-label="Pages" className="px-2.5 pb-1">
        <NavRow href="/play" icon={<MessagesSquare aria-hidden />} title="Playground" />
        <NavRow href="/workflows" icon={<Workflow aria-hidden />} title="Workflows" />
        <NavRow href="/traces" icon={<ListTree aria-hidden />} title="Traces" />
        <NavRow href="/sessions" icon={<History aria-hidden />} title="Sessions" />
        <NavRow href="/testsets" icon={<Table2 aria-hidden />} title="Test sets" />
        <NavRow href="/evaluations" icon={<FlaskConical aria-hidden />} title="Evaluations" />
        <NavRow href="/reviews" icon={<UsersRound aria-hidden />} title="Reviews" />
        <NavRow href="/evaluations/online" icon={<Radio aria-hidden />} title="Live evaluators" />
      </nav>
      <div className="min-h-0 grow basis-16 overflow-y-auto border-t">
        {ready && <BoardList />}
        {ready && <ThreadList />}
      </div>
      <TourPanel />
      <footer className="shrink-0 border-t px-2.5 py-1.5">
        <a href={DOCS_URL} target="_blank" rel="noreferrer" className={navRowStyle(false)}>
          <BookOpen aria-hidden />
          Docs
        </a>
        <NavRow href="/settings" icon={<Settings aria-hidden />} title="Settings" />
        {ready && <LogOutRow />}
      </footer>
    </div>
  );
}

export function Rail({ onExpand, onPalette }: { onExpand: () => void; onPalette: () => void }): ReactNode {
  const [, navigate] = useLocation();
  return (
    <div className="flex h-full w-12 flex-col items-center gap-1 border-r bg-canvas py-2">
      <Link href="/play" aria-label="Palaver" className="mb-1 flex size-8 items-center justify-center rounded-md">
        <img src={icon} alt="" className="size-5" />
      </Link>
      <IconButton label="Show sidebar" keys={formatShortcut(KEYS.sidebar)} onClick={onExpand}>
        <PanelLeftOpen />
      </IconButton>
      <IconButton label="Search" keys={formatShortcut(KEYS.palette)} onClick={onPalette}>
        <Search />
      </IconButton>
      <IconButton label="New chat" keys={formatShortcut(KEYS.newChat)} onClick={() => navigate(newChatPath())}>
        <SquarePen />
      </IconButton>
      <nav aria-label="Pages" className="flex grow flex-col gap-1">
        <NavIcon href="/play" icon={<MessagesSquare />} title="Playground" />
        <NavIcon href="/workflows" icon={<Workflow />} title="Workflows" />
        <NavIcon href="/traces" icon={<ListTree />} title="Traces" />
        <NavIcon href="/sessions" icon={<History />} title="Sessions" />
        <NavIcon href="/testsets" icon={<Table2 />} title="Test sets" />
        <NavIcon href="/evaluations" icon={<FlaskConical />} title="Evaluations" />
        <NavIcon href="/reviews" icon={<UsersRound />} title="Reviews" />
        <NavIcon href="/evaluations/online" icon={<Radio />} title="Live evaluators" />
        <span className="grow" />
        <TourIcon onOpen={onExpand} />
        <Hint text="Docs">
          <a href={DOCS_URL} target="_blank" rel="noreferrer" aria-label="Docs" className={navIconStyle(false)}>
            <BookOpen />
          </a>
        </Hint>
        <NavIcon href="/settings" icon={<Settings />} title="Settings" />
      </nav>
    </div>
  );
}

interface NavProps {
  href: string;
  icon: ReactNode;
  title: string;
}

const navRowStyle = (isCurrent: boolean): string =>
  cn(
    'flex h-8 items-center gap-2.5 rounded-lg px-2.5 -outline-offset-2 [&>svg]:size-4 [&>svg]:shrink-0',
    isCurrent ? 'font-medium text-ink [&>svg]:text-accent' : 'text-muted hover:bg-sunken hover:text-ink',
  );

const navIconStyle = (isCurrent: boolean): string =>
  cn(
    'flex size-8 items-center justify-center rounded-lg [&>svg]:size-4',
    isCurrent ? 'text-accent' : 'text-muted hover:bg-sunken hover:text-ink',
  );

/** Paths below another entry that have an entry of their own. */
const NESTED_PATHS = ['/evaluations/online'];

function useIsCurrent(href: string): boolean {
  const [path] = useLocation();
  const isUnder = (prefix: string) => path === prefix || path.startsWith(`${prefix}/`);
  return (
    isUnder(href) && !NESTED_PATHS.some((nested) => nested !== href && nested.startsWith(`${href}/`) && isUnder(nested))
  );
}

function NavRow({ href, icon: navIcon, title }: NavProps): ReactNode {
  const isCurrent = useIsCurrent(href);
  return (
    <Link href={href} aria-current={isCurrent ? 'page' : undefined} className={navRowStyle(isCurrent)}>
      {navIcon}
      {title}
    </Link>
  );
}

function NavIcon({ href, icon: navIcon, title }: NavProps): ReactNode {
  const isCurrent = useIsCurrent(href);
  return (
    <Hint text={title}>
      <Link
        href={href}
        aria-label={title}
        aria-current={isCurrent ? 'page' : undefined}
        className={navIconStyle(isCurrent)}
      >
        {navIcon}
      </Link>
    </Hint>
  );
}

async function logOut(): Promise<void> {
  await api('delete', '/api/session', {});
  queryClient.clear();
  window.location.reload(); // Drop all data of this session; the next request redirects to the login.
}

/** Shown only to users who logged in with a key. */
function LogOutRow(): ReactNode {
  const { data } = useQuery(sessionQuery());
  if (!data?.key) return null;
  return (
    <button
      type="button"
      onClick={() => void logOut().catch(showError)}
      title={`${data.key}, project ${data.project}`}
      className={cn(
        'flex h-8 w-full items-center gap-2.5 rounded-lg px-2.5',
        'text-muted -outline-offset-2 hover:bg-sunken hover:text-ink',
      )}
    >
      <LogOut aria-hidden className="size-4 shrink-0" />
      <span className="shrink-0">Log out</span>
      <span className="min-w-0 grow truncate text-right text-xs text-faint">
        {data.project === 'default' ? data.key : data.project}
      </span>
    </button>
  );
}
