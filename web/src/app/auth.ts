/** Session and login: redirect to the login on 401, and back afterwards. */
import { queryOptions, useQuery } from '@tanstack/react-query';
import { ApiError, api } from '@/api/client';
import { queryClient } from '@/api/queries';

const PLACEHOLDER_ORIGIN = 'http://here';

/** Call `onUnauthorized` whenever a response is 401. Returns the unsubscriber. */
export function watchUnauthorized(onUnauthorized: () => void): () => void {
  const check = (error: unknown) => {
    if (error instanceof ApiError && error.status === 401) onUnauthorized();
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

/** The path to open after login; always one of this page. */
export function nextPath(next: string | null): string {
  if (!next?.startsWith('/') || !URL.canParse(next, PLACEHOLDER_ORIGIN)) return '/';
  // Parse like a browser: tabs and backslashes can turn a path into another host.
  const { origin, pathname, search, hash } = new URL(next, PLACEHOLDER_ORIGIN);
  return origin === PLACEHOLDER_ORIGIN && !pathname.startsWith('//') && pathname !== '/login'
    ? `${pathname}${search}${hash}`
    : '/';
}

/** The login path that leads back to `path`. */
export const loginPath = (path: string): string =>
  path === '/' || path === '' ? '/login' : `/login?next=${encodeURIComponent(path)}`;

/** The identity of the page and its scopes. */
export const sessionQuery = () =>
  queryOptions({ queryKey: ['session'], queryFn: ({ signal }) => api('get', '/api/session', { signal }) });

/** Whether the user may change keys, connections and the like; false while unknown. */
export const useIsAdmin = (): boolean => useQuery(sessionQuery()).data?.scopes.includes('admin') ?? false;
