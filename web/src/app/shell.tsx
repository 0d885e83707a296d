/** The frame of the page: sidebar (a drawer on phones) and the current view. */
import { useQuery } from '@tanstack/react-query';
import { Menu, SquarePen } from 'lucide-react';
import { Dialog } from 'radix-ui';
import { lazy, Suspense, useEffect, useState, type ReactNode } from 'react';
import { useLocation, useSearch } from 'wouter';
import { watchForChanges, queryClient, bootstrapQuery, type Bootstrap } from '@/api/queries';
import { socket } from '@/api/stream-fetch';
import { AddToTestset } from '@/components/add-to-testset';
import { IconButton } from '@/components/button';
import { ConfirmDialog } from '@/components/confirm-dialog';
import { createStoredChoice } from '@/lib/preferences';
import { NoWorkflows, useHasNoWorkflows } from '@/pages/workflows/no-workflows';
import { watchUnauthorized, loginPath, sessionQuery } from './auth';
import { newChatPath } from './board-list';
import { listenForKeys, useCommand, KEYS } from './commands';
import { Rail, Sidebar } from './sidebar';
import { pinnedThreadsQuery, threadPagesQuery } from './threads';
import { startTour } from './tour/progress';
import { TourPill } from './tour/tour';

const Palette = lazy(() => import('./command-palette'));
const ShortcutsDialog = lazy(() => import('./shortcuts-dialog'));

const useSidebarState = createStoredChoice('palaver.sidebar', ['open', 'folded']);

export function Shell({ children }: { children: ReactNode }): ReactNode {
  const [path] = useLocation();
  const [overlay, setOverlay] = useState<'palette' | 'shortcuts' | null>(null);
  const isCollapsed = useSidebarState() === 'folded';
  const ready = useBootstrap();
  const hasNothingToRun = useHasNoWorkflows(ready) && path === '/play';
  const toggleSidebar = () => useSidebarState.setState(isCollapsed ? 'open' : 'folded');
  const togglePalette = () => setOverlay((current) => (current === 'palette' ? null : 'palette'));
  useEffect(watchForChanges, []);
  useLoginRedirect();
  useGlobalCommands({ toggleSidebar, find: togglePalette, help: () => setOverlay('shortcuts') });
  return (
    <div className="flex h-full flex-col">
      <ConnectionBanner />
      <div className="flex min-h-0 grow">
        <aside className="hidden shrink-0 md:block">
          {isCollapsed ? (
            <Rail onExpand={toggleSidebar} onPalette={togglePalette} />
          ) : (
            <div className="h-full w-64 border-r">
              <Sidebar ready={ready} onFold={toggleSidebar} onPalette={togglePalette} />
            </div>
          )}
        </aside>
        <div className="flex min-w-0 grow flex-col">
          <TopBar ready={ready} onPalette={togglePalette} />
          <main className="min-h-0 min-w-0 grow overflow-y-auto">{hasNothingToRun ? <NoWorkflows /> : children}</main>
        </div>
      </div>
      <Suspense>
        {overlay === 'palette' && <Palette onClose={() => setOverlay(null)} onHelp={() => setOverlay('shortcuts')} />}
        {overlay === 'shortcuts' && <ShortcutsDialog onClose={() => setOverlay(null)} />}
      </Suspense>
      <AddToTestset />
      <ConfirmDialog />
    </div>
  );
}

/** On phones: a bar with a button that opens the sidebar. Navigation closes it. */
function TopBar({ ready, onPalette }: { ready: boolean; onPalette: () => void }): ReactNode {
  const [path, navigate] = useLocation();
  const search = useSearch();
  const currentUrl = `${path}?${search}`;
  const [openUrl, setOpenUrl] = useState<string | null>(null);
  const close = () => setOpenUrl(null);
  return (
    <header className="flex h-11 shrink-0 items-center justify-between border-b bg-canvas px-1.5 md:hidden">
      <Dialog.Root open={openUrl === currentUrl} onOpenChange={(open) => setOpenUrl(open ? currentUrl : null)}>
        <Dialog.Trigger asChild>
          <IconButton label="Menu">
            <Menu />
          </IconButton>
        </Dialog.Trigger>
        <Dialog.Portal>
          <Dialog.Overlay className="fixed inset-0 z-30 bg-black/30" />
          <Dialog.Content
            aria-describedby={undefined}
            className="fixed inset-y-0 left-0 z-30 w-72 max-w-[85vw] border-r shadow-float outline-none"
            // Don't focus the first button: a focused button shows its tooltip.
            onOpenAutoFocus={(event) => {
              event.preventDefault();
              if (event.currentTarget instanceof HTMLElement) event.currentTarget.focus();
            }}
            onCloseAutoFocus={(event) => event.preventDefault()}
          >
            <Dialog.Title className="sr-only">Menu</Dialog.Title>
            <Sidebar
              ready={ready}
              onFold={close}
              onPalette={() => {
                close();
                onPalette();
              }}
            />
          </Dialog.Content>
        </Dialog.Portal>
      </Dialog.Root>
      <span className="flex items-center gap-3 font-semibold">
        Palaver <TourPill onOpen={() => setOpenUrl(currentUrl)} />
      </span>
      <IconButton label="New chat" onClick={() => navigate(newChatPath())}>
        <SquarePen />
      </IconButton>
    </header>
  );
}

function useGlobalCommands({
  toggleSidebar,
  find,
  help,
}: {
  toggleSidebar: () => void;
  find: () => void;
  help: () => void;
}): void {
  const [, navigate] = useLocation();
  useEffect(listenForKeys, []);
  useCommand({ id: 'palette', title: 'Search', group: 'General', keys: KEYS.palette, run: find, everywhere: true });
  useCommand({
    id: 'new-chat',
    title: 'New chat',
    group: 'General',
    keys: KEYS.newChat,
    run: () => navigate(newChatPath()),
  });
  useCommand({
    id: 'sidebar',
    title: 'Toggle sidebar',
    group: 'General',
    keys: KEYS.sidebar,
    run: toggleSidebar,
  });
  useCommand({ id: 'shortcuts', title: 'Show keyboard shortcuts', group: 'General', keys: KEYS.help, run: help });
}

/** Redirect to the login on 401, and back afterwards. */
function useLoginRedirect(): void {
  const [path, navigate] = useLocation();
  const search = useSearch();
  useEffect(
    () => watchUnauthorized(() => navigate(loginPath(search ? `${path}?${search}` : path), { replace: true })),
    [path, search, navigate],
  );
}

const LOST_DELAY_MS = 1200;

/** Banner while the connection to the server is lost. */
export function ConnectionBanner(): ReactNode {
  const isLost = useConnectionLost();
  if (!isLost) return null;
  return (
    <div role="status" className="shrink-0 bg-warn-soft px-4 py-1 text-center text-xs font-medium text-warn">
      Connection lost. Reconnecting…
    </div>
  );
}

/** Whether the connection is lost for a while. False where a proxy forbids sockets. */
function useConnectionLost(): boolean {
  const [isLost, setLost] = useState(false);
  useEffect(() => {
    let wasConnected = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const unsubscribe = socket.listen(
      () => {},
      (connected) => {
        if (connected) {
          wasConnected = true;
          clearTimeout(timer);
          timer = undefined;
          setLost(false);
        } else if (wasConnected && timer === undefined) {
          timer = setTimeout(() => setLost(true), LOST_DELAY_MS);
          // An expired session also closes the socket; the request then gets a 401 and redirects to the login.
          void queryClient.invalidateQueries({ queryKey: ['session'] });
        }
      },
    );
    return () => {
      clearTimeout(timer);
      unsubscribe();
    };
  }, []);
  return isLost;
}

const MAX_PINNED = 20;

/** Whether the bootstrap response has arrived or failed. */
export function useBootstrap(): boolean {
  const { data, isError } = useQuery(bootstrapQuery());
  const seeding = useQuery({
    queryKey: ['first'],
    enabled: data !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: () => (data ? seedQueries(data) : false),
  });
  return seeding.isSuccess || isError;
}

function seedQueries({ threads, pinned, project, credential, features }: Bootstrap): true {
  if (features.tour) startTour();
  // Don't overwrite data that was fetched since.
  queryClient.setQueryData(
    threadPagesQuery('').queryKey,
    (cached) => cached ?? { pages: [threads], pageParams: [null] },
  );
  if (pinned.length < MAX_PINNED)
    queryClient.setQueryData(pinnedThreadsQuery().queryKey, (cached) => cached ?? { data: pinned, next: null });
  queryClient.setQueryData(
    sessionQuery().queryKey,
    (cached) => cached ?? { project, scopes: credential.scopes, key: credential.key, expires_at: null },
  );
  return true;
}
