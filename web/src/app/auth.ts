/** Who is not let in is asked for a key, and comes back to where they were. */
import { queryOptions, useQuery } from '@tanstack/react-query';
import { ApiError, api } from '@/api/client';
import { queryClient } from '@/api/queries';

const PLAYGROUND_PATH = 'http://here';

/** Calls `refused` whenever an answer to the page was 401. */
export function watchUnauthorized(refused: () => void): () => void {
  const check = (error: unknown) => {
    if (error instanceof ApiError && error.status === 401) refused();
  };
  const unwatchQueries = queryClient.getQueryCache().subscribe((event) => {
    if (event.type === 'updated' && event.action.type === 'error') check(event.action.error);
  });
  const unwatchMutations = queryClient.getMutationCache().subscribe((event) => {
    if (event.type === 'updated' && event.action.type === 'error') check(event.action.error);
  });
  return () => {
    unwatchQueries();
    unwatchMutations();
  };
}

/** The path to go to after login: of this page only, whatever the address says. */
export function nextPath(next: string | null): string {
  if (!next?.startsWith('/') || !URL.canParse(next, PLAYGROUND_PATH)) return '/';
  // Read as a browser would: tabs and backslashes can make another host of what looks like a path.
  const { origin, pathname, search, hash } = new URL(next, PLAYGROUND_PATH);
  return origin === PLAYGROUND_PATH && !pathname.startsWith('//') && pathname !== '/login'
    ? `${pathname}${search}${hash}`
    : '/';
}

/** The address of the login that leads back to `path`. */
export const loginPath = (path: string): string =>
  path === '/' || path === '' ? '/login' : `/login?next=${encodeURIComponent(path)}`;

/** Who the page speaks as, and what they may do. */
export const sessionQuery = () =>
  queryOptions({ queryKey: ['session'], queryFn: ({ signal }) => api('get', '/api/session', { signal }) });

/** May they change keys, connections and the like? Not as long as it is not known. */
export const useIsAdmin = (): boolean => useQuery(sessionQuery()).data?.scopes.includes('admin') ?? false;
